//! What the help of every command keeps to; both programs' tests ask.

use std::collections::HashMap;

use clap::Command;

/// Checks every command below this one; examples and lists are at most `width_max` columns wide.
pub(crate) fn check(mut root: Command, width_max: usize) -> Vec<String> {
    root.build();
    let mut found = Vec::new();
    let name = root.get_name().to_owned();
    commands(&root, &name, &mut found);
    found.push((name, root));
    let described = descriptions_differ(&found);
    found.iter().for_each(|(path, command)| is_wrapped_by_clap(path, command, width_max));
    described
}

/// Every command, with the words that lead to it.
fn commands(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        commands(sub, &path, found);
        found.push((path, sub.clone()));
    }
}

/// The doc comment of a struct of arguments that is flattened into another becomes the other's description, unless the
/// command is described after its arguments.
fn descriptions_differ(commands: &[(String, Command)]) -> Vec<String> {
    let mut described: HashMap<String, &str> = HashMap::new();
    for (path, command) in commands {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty(), "{path} has no description");
        if let Some(other) = described.insert(about.clone(), path) {
            panic!("`{path}` and `{other}` are both described as `{about}`");
        }
    }
    described.into_keys().collect()
}

/// clap wraps paragraphs to the terminal's width, so a paragraph is one line; examples and lists, which begin with blanks,
/// must fit as they are.
fn is_wrapped_by_clap(path: &str, command: &Command, width_max: usize) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut before = "";
    for line in text.lines() {
        if line.starts_with(' ') {
            assert!(line.chars().count() <= width_max, "{path}: `{line}` is too wide");
        } else {
            let continues = !before.is_empty() && !before.starts_with(' ') && !line.is_empty();
            assert!(!continues, "{path}: the paragraph of `{line}` is broken into lines by hand");
        }
        before = line;
    }
}

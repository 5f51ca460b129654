//! `ciphermill lab cases --list`: the named measurements and their goals.

use ciphermill_lab::cases::{Case, Figure};

use crate::output::{self, say};
use crate::records;

/// Lists cases, or writes them as JSON where that is asked for.
pub(crate) fn list(chosen: &[Case], json: Option<&std::path::Path>) -> anyhow::Result<()> {
    if let Some(path) = json {
        return records::write(path, &(serde_json::to_string_pretty(chosen)? + "\n"));
    }
    let mut table = output::table(&["case", "suite", "compared", "must", "aim", "what"], 6);
    for case in chosen {
        let goal = |value: f64| match case.figure {
            Figure::Rate => format!("≥ {value} ×"),
            Figure::Latency => format!("≤ {value} ×"),
        };
        for (comparison, must, aim) in case.goals() {
            let (name, suite, about) = (case.name.clone(), case.suite()?.to_string(), case.about.clone());
            table.add_row([name, suite, comparison, goal(must), goal(aim), about]);
        }
    }
    say(table)
}

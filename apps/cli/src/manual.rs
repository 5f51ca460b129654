//! Completion scripts and manual pages.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::whole;

/// Prints a shell's completion script.
pub fn completions(mut command: clap::Command, shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page, or writes a page a command into `folder`.
pub fn man(mut command: clap::Command, folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    command.build();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        std::io::stdout().lock().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    write_pages(&command, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    whole::write(&path, &page)?;
    command.get_subcommands().filter(|sub| sub.get_name() != "help").try_for_each(|sub| write_pages(sub, folder))
}

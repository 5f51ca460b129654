//! The crates of the workspace, as `cargo metadata` tells them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The workspaces of the repository, by folder. What is fuzzed is built by another compiler, and finished research is not
/// built at all by those who do not go on with it, and so each has one of its own.
const WORKSPACES: [&str; 3] = ["", "fuzz", "tools/sboxes"];

/// What a dependency is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Normal,
    Build,
    Test,
}

/// One package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Relative to the repository; packages are known by it.
    pub(crate) folder: String,
    /// The folders of the packages of the workspace that it depends on.
    pub(crate) needs: Vec<(String, Need)>,
    /// The files that cargo compiles as roots of crates, relative to the repository, with `/` between the parts.
    pub(crate) roots: Vec<String>,
}

/// The cargo that runs this, or the one that a shell finds.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Reads the packages of all workspaces below `root`. Dependencies from outside are left out, so this needs no network.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for workspace in WORKSPACES {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(root.join(workspace))
            .output()
            .context("cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        packages.extend(parse(&serde_json::from_slice(&output.stdout).context("cargo metadata")?, workspace)?);
    }
    Ok(packages)
}

/// Reads what cargo says of the workspace in the folder `workspace`.
fn parse(metadata: &Value, workspace: &str) -> Result<Vec<Package>> {
    let base = text(metadata, "workspace_root")?;
    let base = base.strip_suffix(workspace).unwrap_or(base).trim_end_matches('/');
    list(metadata, "packages")?.iter().map(|package| parse_package(package, base)).collect()
}

fn parse_package(package: &Value, base: &str) -> Result<Package> {
    let manifest = text(package, "manifest_path")?;
    let folder = Path::new(manifest).parent().context("a manifest at /")?;
    let mut parsed = Package { folder: relative(folder, base)?, needs: Vec::new(), roots: Vec::new() };
    for dependency in list(package, "dependencies")? {
        // Only packages of the workspace are given by path.
        let Some(path) = dependency["path"].as_str() else {
            continue;
        };
        let need = match dependency["kind"].as_str() {
            Some("dev") => Need::Test,
            Some("build") => Need::Build,
            _ => Need::Normal,
        };
        parsed.needs.push((relative(Path::new(path), base)?, need));
    }
    for target in list(package, "targets")? {
        parsed.roots.push(relative(Path::new(text(target, "src_path")?), base)?);
    }
    Ok(parsed)
}

fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str> {
    value[field].as_str().with_context(|| format!("cargo metadata: no text in {field}"))
}

fn list<'v>(value: &'v Value, field: &str) -> Result<&'v Vec<Value>> {
    value[field].as_array().with_context(|| format!("cargo metadata: no list in {field}"))
}

fn relative(path: &Path, base: &str) -> Result<String> {
    let inside = path.strip_prefix(base).with_context(|| format!("{} lies outside the workspace", path.display()))?;
    Ok(inside.to_string_lossy().replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn this_package_is_found() {
        let packages = packages(&crate::files::root()).unwrap();
        let xtask = packages.iter().find(|p| p.folder == "xtask").unwrap();
        assert_eq!(xtask.needs, []);
        assert_eq!(xtask.roots, ["xtask/src/main.rs"]);
    }

    #[test]
    fn dependencies_and_targets_are_told_apart() {
        let metadata = json!({
            "workspace_root": "/w",
            "packages": [{
                "manifest_path": "/w/a/b/Cargo.toml",
                "dependencies": [
                    {"name": "serde", "path": null, "kind": null},
                    {"name": "c-d", "path": "/w/c", "kind": null},
                    {"name": "d", "path": "/w/d", "kind": "dev"},
                    {"name": "e", "rename": "f", "path": "/w/e", "kind": "build"},
                ],
                "targets": [
                    {"kind": ["lib"], "src_path": "/w/a/b/src/lib.rs"},
                    {"kind": ["custom-build"], "src_path": "/w/a/b/build.rs"},
                ],
            }],
        });
        let parsed = parse(&metadata, "").unwrap();
        assert_eq!(parsed.len(), 1);
        assert_eq!(parsed[0].folder, "a/b");
        assert_eq!(
            parsed[0].needs,
            [("c".to_owned(), Need::Normal), ("d".to_owned(), Need::Test), ("e".to_owned(), Need::Build),]
        );
        assert_eq!(parsed[0].roots, ["a/b/src/lib.rs", "a/b/build.rs"]);
    }

    #[test]
    fn what_lies_outside_or_is_missing_is_an_error() {
        let outside = json!({
            "workspace_root": "/w",
            "packages": [{"manifest_path": "/v/Cargo.toml", "dependencies": [], "targets": []}],
        });
        assert!(parse(&outside, "").is_err());
        assert!(parse(&json!({"packages": []}), "").is_err());
    }
}

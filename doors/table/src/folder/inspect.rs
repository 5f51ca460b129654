//! Looking at a folder of protected tables.

use std::path::PathBuf;

use ciphermill::Mill;

use super::open::{Folder, find_root};
use crate::error::Result;
use crate::inspect::{Check, Inspection, inspect};
use crate::job::{Progress, UnprotectJob};
use crate::keys::RootKey;

/// What there is to say of a folder of protected tables.
#[derive(Clone, Debug)]
pub struct FolderInspection {
    /// The folder's manifest; where there is none, the input.
    pub manifest: PathBuf,
    /// Whether that manifest, and the journal of an unfinished run, were signed under the key.
    pub signature: Check,
    /// The journal of a run that has not ended.
    pub journal: Option<PathBuf>,
    /// The tables by their names in the folder.
    pub tables: Vec<(String, Inspection)>,
}

impl FolderInspection {
    /// Whether nothing that was checked has failed.
    pub fn is_good(&self) -> bool {
        self.problem().is_none()
    }

    /// What has failed first of what was checked.
    pub fn problem(&self) -> Option<String> {
        let of_folder = self.signature.problem().map(|problem| format!("signature: {problem}"));
        let of_table = |(name, table): &(String, Inspection)| Some(format!("{name}: {}", table.problem()?));
        of_folder.or_else(|| self.tables.iter().find_map(of_table))
    }
}

/// Looks at the tables of a folder; with a mill and the keys that [`Folder::keys`] tells, signatures and values are verified too.
///
/// # Errors
/// As for [`inspect()`]. What does not verify is part of the [`FolderInspection`].
pub fn inspect_folder(
    folder: &Folder,
    job: &UnprotectJob,
    key: Option<(&Mill, &[RootKey])>,
    progress: &dyn Progress,
) -> Result<FolderInspection> {
    let signature = match (key, &folder.manifest) {
        (Some((mill, roots)), Some(_)) => Check::of(folder.verify(mill, roots))?,
        (Some(_), None) => Check::NotChecked("the folder has no manifest"),
        (None, _) => Check::NotChecked("it takes the key"),
    };
    let mut tables = Vec::new();
    for (file, manifest) in &folder.tables {
        let job = UnprotectJob { input: file.path.clone(), ..job.clone() };
        let protected = folder.protected(file, &job)?;
        let key = match key {
            Some((mill, roots)) => Some((mill, find_root(roots, &manifest.root_key, &folder.manifest_path(&job))?)),
            None => None,
        };
        tables.push((file.name.clone(), inspect(protected, &job, key, progress)?));
    }
    let journal = folder.record.as_ref().map(|(_, path)| path.clone());
    Ok(FolderInspection { manifest: folder.manifest_path(job), signature, journal, tables })
}

//! Protected tables that a command reads: one, or those of a folder; and the keys that they need.

use anyhow::Context;
use ciphermill::Mill;
use ciphermill_keys::keystore::Keystore;
use ciphermill_table::{Folder, ManifestKey, Protected, RootKey, UnprotectJob, is_folder};

/// The input of a job, open.
pub(super) enum Input {
    Table(Box<Protected>),
    Folder(Box<Folder>),
}

impl Input {
    /// Opens what the job names.
    pub(super) fn open(job: &UnprotectJob) -> anyhow::Result<Input> {
        Ok(match is_folder(&job.input) {
            true => Input::Folder(Box::new(Folder::open(job)?)),
            false => Input::Table(Box::new(Protected::open(job)?)),
        })
    }

    /// The keys that it is protected under.
    pub(super) fn keys(&self) -> Vec<ManifestKey> {
        match self {
            Input::Table(protected) => vec![protected.manifest().root_key.clone()],
            Input::Folder(folder) => folder.keys(),
        }
    }

    /// Rows as the manifests say.
    pub(super) fn rows(&self) -> u64 {
        match self {
            Input::Table(protected) => protected.manifest().rows,
            Input::Folder(folder) => folder.rows(),
        }
    }

    /// Brings its keys, of which there is one at least, into the mill.
    pub(super) fn roots(&self, job: &UnprotectJob, keystore: &Keystore, mill: &Mill) -> anyhow::Result<Vec<RootKey>> {
        let load = |key: ManifestKey| {
            load_root(keystore, mill, &key.name, key.version)
                .with_context(|| format!("the key that the manifest of {} names", job.input.display()))
        };
        self.keys().into_iter().map(load).collect()
    }
}

/// Brings a version of a key into the mill, for deriving column keys and nothing else.
pub(crate) fn load_root(keystore: &Keystore, mill: &Mill, name: &str, version: u32) -> anyhow::Result<RootKey> {
    let id = keystore.load_for_derivation(mill.keys(), name, version)?;
    Ok(RootKey { id, name: name.to_owned(), version })
}

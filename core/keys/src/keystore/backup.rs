//! Backups: keystores of their own, with every record, under another master key and a secret of their own.

use std::path::Path;

use subtle::ConstantTimeEq;

use super::error::KeystoreError;
use super::file::Records;
use super::header::Header;
use super::record::{KeyState, OpenedRecord, Sealer};
use super::secret::{KdfParameters, MasterSecret};
use super::{Keystore, WaitPolicy, free_path, present_second, seal_into};

/// What [`Keystore::restore`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Versions that were taken over.
    pub added: usize,
    /// Versions that were there already, and stay as they are.
    pub present: usize,
    /// Versions that the backup still has, but that were destroyed here, and stay so.
    pub left_destroyed: usize,
}

impl Keystore {
    /// Writes a keystore with all that this one holds. It has a master key of its own, so that neither file's secret
    /// opens anything of the other, and it can be opened, listed and used as any keystore.
    ///
    /// # Errors
    ///
    /// As [`Keystore::create`], and [`KeystoreError::Damaged`] for a record that is not authentic.
    pub fn back_up(
        &self,
        path: impl AsRef<Path>,
        secret: &MasterSecret,
        parameters: KdfParameters,
    ) -> Result<(), KeystoreError> {
        let path = free_path(path.as_ref())?;
        let (header, opened) = Header::create(secret, parameters, present_second()?)?;
        let sealer = Sealer::new(&opened.master)?;
        let records = self.resealed(&sealer)?;
        let (wrapping, master) = (opened.wrapping, opened.master);
        Keystore { path, wait: WaitPolicy::default(), header, wrapping, master, sealer, records }.place_new()
    }

    /// Takes over what another keystore has and this one lacks, all of it or nothing. What is here stays as it is: states,
    /// policies and descriptions are not put back, and a version that was destroyed here stays destroyed. Of each key the
    /// newest active version stays active; older ones that arrive active are retired.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Conflict`] when both have a version with different keys; [`KeystoreError::Damaged`] for a record
    /// that is not authentic; errors of every change, see [`Keystore::generate`].
    pub fn restore(&mut self, backup: &Keystore) -> Result<Restored, KeystoreError> {
        let draft = self.begin()?;
        let mut restored = Restored::default();
        let mut records = self.records.clone();
        for ((name, version), sealed) in &backup.records {
            let theirs = backup.open_record(name, *version, sealed)?;
            match self.records.get(&(name.clone(), *version)) {
                None => {
                    seal_into(&mut records, &self.sealer, &theirs.record, theirs.key())?;
                    restored.added += 1;
                }
                Some(ours) => {
                    let ours = self.open_record(name, *version, ours)?;
                    if !is_same_key(&ours, &theirs) {
                        return Err(KeystoreError::Conflict { name: name.clone(), version: *version });
                    }
                    match (ours.record.state, theirs.record.state) {
                        (KeyState::Destroyed, state) if state != KeyState::Destroyed => restored.left_destroyed += 1,
                        _ => restored.present += 1,
                    }
                }
            }
        }
        if restored.added > 0 {
            self.retire_followed(&mut records)?;
            self.commit(draft, records)?;
        }
        Ok(restored)
    }

    /// Retires every active version that has a newer active one behind it.
    fn retire_followed(&self, records: &mut Records) -> Result<(), KeystoreError> {
        let mut followed = Vec::new();
        let mut newer: Option<&str> = None;
        for ((name, version), sealed) in records.iter().rev() {
            let opened = self.open_record(name, *version, sealed)?;
            if opened.record.state != KeyState::Active {
                continue;
            }
            if newer == Some(name) {
                followed.push(opened);
            } else {
                newer = Some(name);
            }
        }
        for mut opened in followed {
            opened.record.state = KeyState::Retired;
            seal_into(records, &self.sealer, &opened.record, opened.key())?;
        }
        Ok(())
    }
}

/// Whether two records are of the same key. Of a destroyed version only the check value is left.
fn is_same_key(ours: &OpenedRecord, theirs: &OpenedRecord) -> bool {
    let is_gone = [ours, theirs].iter().any(|opened| opened.record.state == KeyState::Destroyed);
    let is_equal = is_gone || bool::from(ours.key().ct_eq(theirs.key()));
    is_equal
        && ours.record.form == theirs.record.form
        && bool::from(ours.record.key_check_value.0.ct_eq(&theirs.record.key_check_value.0))
}

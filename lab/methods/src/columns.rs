//! A workload as columns through a mill: what a table has, with check, lease, route and accounts in its time.

use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill, Session};
use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::suite::Aead;
use ciphermill_contract::{ColumnBatch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, Result, Suite};
use ciphermill_peers::native::NativeLoop;

use crate::workload::Workload;

/// What the way is called.
const WAY: &str = "columns, through a mill";

/// Byte strings one behind the other.
struct Column {
    bytes: Vec<u8>,
    offsets: Vec<i64>,
}

impl Column {
    fn new<'s>(strings: impl Iterator<Item = Vec<&'s [u8]>>) -> Column {
        let mut column = Column { bytes: Vec::new(), offsets: vec![0] };
        for parts in strings {
            parts.iter().for_each(|part| column.bytes.extend_from_slice(part));
            column.offsets.push(column.bytes.len() as i64);
        }
        column
    }

    fn extents(&self) -> Extents<'_> {
        Extents::LargeOffsets(&self.offsets)
    }
}

/// A mill over one engine, and a workload's operations as columns: IVs and tags lie within the sealed values, a synthetic IV
/// before them and a tag behind them.
pub(crate) struct MillColumns {
    session: Session,
    suite: Suite,
    direction: Direction,
    keys: Vec<KeyId>,
    iv_len: usize,
    tag_len: usize,
    /// Data of all operations, or of each.
    aad: Column,
    is_aad_shared: bool,
    input: Column,
    output: Column,
    statuses: Vec<ColumnStatus>,
    /// The operations as they came, with their arena.
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl MillColumns {
    /// For a workload of a suite that transforms its input.
    ///
    /// # Errors
    /// What opening the mill and importing keys say.
    pub(crate) fn new(engine: &Arc<dyn Engine>, workload: &Workload) -> Result<MillColumns> {
        let Workload { suite, direction, ops, arena, .. } = workload;
        let mill = Mill::builder().engine(Arc::clone(engine)).workers(0).open()?;
        let import = |key: &[u8]| mill.keys().import(KeyMaterial::secret(key), KeyPolicy::default());
        let names: Vec<KeyId> = workload.keys().iter().map(|key| import(key)).collect::<Result<_>>()?;
        let of_each = workload.key_of().iter().map(|key| names[*key]);
        let keys = if names.len() == 1 { names.clone() } else { of_each.collect() };
        let (iv_len, tag_len) = (suite.default_iv_len(), suite.default_tag_len());
        let is_aad_shared = ops.iter().all(|op| op.aad == ops[0].aad);
        let with_own_aad = if is_aad_shared { &ops[..1] } else { ops };
        let encrypt = *direction == Direction::Encrypt;
        let clear = |op: &Op| vec![&arena[op.input.range()]];
        let sealed = |op: &Op| {
            let (iv, data, tag) = (&op.iv[..iv_len], &arena[op.input.range()], &arena[op.tag_span().range()]);
            // What was sealed, or room for it.
            let parts = if is_synthetic(*suite) { [tag, data, &[][..]] } else { [iv, data, tag] };
            parts.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>().concat()
        };
        let sealed: Vec<Vec<u8>> = ops.iter().map(sealed).collect();
        let sealed = Column::new(sealed.iter().map(|value| vec![&value[..]]));
        let clear = Column::new(ops.iter().map(clear));
        let (input, output) = if encrypt { (clear, sealed) } else { (sealed, clear) };
        Ok(MillColumns {
            session: mill.session(),
            suite: *suite,
            direction: *direction,
            keys,
            iv_len,
            tag_len,
            aad: Column::new(with_own_aad.iter().map(|op| vec![&arena[op.aad.span().range()]])),
            is_aad_shared,
            input,
            output,
            statuses: vec![ColumnStatus::PENDING; ops.len()],
            ops: ops.clone(),
            arena: arena.to_vec(),
        })
    }

    fn run_all(&mut self) -> bool {
        self.statuses.fill(ColumnStatus::PENDING);
        let Column { bytes: output, offsets } = &mut self.output;
        let data = ColumnData::Separate {
            input: &self.input.bytes,
            inputs: self.input.extents(),
            output,
            outputs: Extents::LargeOffsets(offsets),
        };
        let keys = if self.keys.len() == 1 { KeyColumn::One(self.keys[0]) } else { KeyColumn::Each(&self.keys) };
        let ivs = if self.iv_len == 0 { IvColumn::None } else { IvColumn::Inline { len: self.iv_len } };
        let tags = match (is_synthetic(self.suite), self.tag_len) {
            (_, 0) => TagColumn::None,
            (true, len) => TagColumn::Before { len },
            (false, len) => TagColumn::After { len },
        };
        let aad = match (self.is_aad_shared, self.aad.bytes.is_empty()) {
            (_, true) => AadColumn::None,
            (true, _) => AadColumn::One(&self.aad.bytes),
            (false, _) => AadColumn::Each { bytes: &self.aad.bytes, extents: self.aad.extents() },
        };
        let batch = ColumnBatch::new(self.suite, self.direction, data, &mut self.statuses);
        let ran = self.session.run_columns(batch.with_keys(keys).with_ivs(ivs).with_tags(tags).with_aad(aad));
        ran.is_ok_and(|report| report.failed == 0)
    }
}

/// Whether a suite's tag is its IV too, and so stands before the ciphertext (RFC 5297).
fn is_synthetic(suite: Suite) -> bool {
    matches!(suite, Suite::Aead(Aead::AesSiv(_)))
}

impl NativeLoop for MillColumns {
    fn ways(&self) -> Vec<String> {
        vec![WAY.to_owned()]
    }

    fn restart(&mut self) -> bool {
        true
    }

    fn run(&mut self, _way: usize) -> bool {
        self.run_all()
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        let (mut ops, mut arena) = (self.ops.clone(), self.arena.clone());
        let encrypt = self.direction == Direction::Encrypt;
        let head = match (encrypt, is_synthetic(self.suite)) {
            (false, _) => 0,
            (true, true) => self.tag_len,
            (true, false) => self.iv_len,
        };
        for (index, op) in ops.iter_mut().enumerate() {
            let start = self.output.offsets[index] as usize;
            let (data, len) = (start + head, op.input.len as usize);
            arena[op.output as usize..][..len].copy_from_slice(&self.output.bytes[data..data + len]);
            if encrypt {
                let tag = if is_synthetic(self.suite) { start } else { data + len };
                arena[op.tag_span().range()].copy_from_slice(&self.output.bytes[tag..tag + self.tag_len]);
            }
            (op.status, op.output_len) = (OpStatus::Done, op.input.len);
        }
        (ops, arena)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::expected;
    use crate::engines::open;
    use crate::workload::Parameters;

    #[test]
    fn columns_have_the_answers_of_operations() {
        let engine = open("lanes").expect("is there");
        let reference = open("reference").expect("is there");
        for (name, keys, shared_aad) in [
            ("aes-256-siv", 1, true),
            ("aes-256-siv", 5, false),
            ("aes-256-gcm-siv", 1, true),
            ("aes-128-cbc", 3, false),
            ("ff1-aes-256", 1, false),
        ] {
            let suite: Suite = name.parse().expect("a suite");
            let parameters = Parameters { ops: 700, keys, shared_aad, len_min: 16, ..Parameters::default() };
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let workload = parameters.workload(suite, direction, reference.as_ref()).expect("a workload");
                let expected = expected(&workload, reference.as_ref()).expect("runs");
                let mut columns = MillColumns::new(&engine, &workload).expect("opens");
                assert!(columns.run(0) && columns.run(0), "{name} {direction}");
                let (ops, arena) = columns.answers();
                assert_eq!(expected.first_difference_in(&ops, &arena), None, "{name} {direction}");
            }
        }
    }
}

//! The checks of columns: engines whose columns are broken on purpose, each in one way, and the check that has to notice.

use ciphermill_conformance::{Options, Report, check_engine};
use ciphermill_contract::columns::{DataBuffers, IvPlace, KeyColumn, PreparedColumn, TagBuffer, TagPlace};
use ciphermill_contract::{
    Capability, CheckedBatch, CheckedColumns, ColumnStatus, Direction, Engine, EngineInfo, EngineQueue, KeyMaterial,
    PreparedKey, QueueHint, Result,
};
use ciphermill_reference::Reference;

/// How the engine's columns are broken.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// Not at all.
    Nothing,
    /// Operations that were left out are run.
    IgnoresLeftOut,
    /// Operations that were left out are reported as done.
    ReportsLeftOut,
    /// The byte behind the last extent is written.
    WritesBehind,
    /// The byte before the first extent is written.
    WritesBefore,
    /// The byte behind each output is written, where it belongs to the next operation.
    WritesNeighbour,
    /// The first two tags change places.
    SwapsTags,
    /// A failed open keeps what it wrote.
    KeepsPlaintext,
    /// A failed open zeroes its neighbour too.
    ZeroesNeighbour,
    /// One failure fails the next operation.
    FailsNeighbour,
    /// All run under the first operation's key.
    MixesKeys,
    /// What comes after 4096 operations is left pending.
    ForgetsTheRest,
    /// The last operation of a window of 512 is verified against no tag.
    TrustsBorders,
    /// One bit of the output of operation 513 is wrong.
    FlipsAtBorder,
    /// The inline IV is written over.
    SpoilsIvs,
    /// An expected tag is written over.
    SpoilsTags,
    /// A batch of one operation is not run.
    ForgetsSingles,
    /// A missing key panics.
    Panics,
    /// Empty operations are not looked at, but reported as done.
    SkipsEmpty,
}

struct Broken {
    inner: Reference,
    fault: Break,
}

struct BrokenQueue {
    inner: Box<dyn EngineQueue>,
    fault: Break,
}

impl Engine for Broken {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> &[Capability] {
        self.inner.capabilities()
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: ciphermill_contract::Suite) -> Result<PreparedKey> {
        self.inner.prepare(key, suite)
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(BrokenQueue { inner: self.inner.queue(hint)?, fault: self.fault }))
    }
}

impl EngineQueue for BrokenQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        self.inner.run(batch);
    }

    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        let before = columns.statuses().to_vec();
        let plain = written(columns).to_vec();
        match self.fault {
            Break::ForgetsSingles if columns.len() == 1 => return,
            Break::ForgetsTheRest if columns.len() > 4096 => {
                (4096..columns.len()).for_each(|index| columns.set_status(index, ColumnStatus::LEFT_OUT));
                self.inner.run_columns(columns);
                columns.parts().1[4096..].copy_from_slice(&before[4096..]);
                return;
            }
            Break::IgnoresLeftOut => {
                // Those whose extents have room for what is inline, where input and output cannot differ.
                let layout = columns.layout();
                let separate = matches!(columns.parts().0.data, DataBuffers::Separate(..));
                let room = layout.iv_len() + layout.tag_len();
                for index in (0..columns.len()).filter(|_| !separate) {
                    if layout.input_extent(index).len() >= room {
                        columns.parts().1[index] = ColumnStatus::PENDING;
                    }
                }
                self.inner.run_columns(columns);
            }
            Break::Panics => {
                let missing = |index| columns.prepared().at(index).is_none();
                let keyed = !matches!(columns.keys(), KeyColumn::None);
                assert!(!keyed || !(0..columns.len()).any(missing), "on purpose");
                self.inner.run_columns(columns);
            }
            Break::MixesKeys => {
                let first = columns.prepared().at(0);
                let prepared = first.map_or(PreparedColumn::None, PreparedColumn::One);
                if let Ok(mut columns) = columns.attach_keys(prepared) {
                    self.inner.run_columns(&mut columns);
                }
            }
            Break::SkipsEmpty => {
                let layout = columns.layout();
                let empty = |index: &usize| before[*index].is_pending() && layout.data(*index).len == 0;
                let empty: Vec<usize> = (0..columns.len()).filter(empty).collect();
                empty.iter().for_each(|index| columns.set_status(*index, ColumnStatus::DONE));
                self.inner.run_columns(columns);
            }
            _ => self.inner.run_columns(columns),
        }
        self.spoil(columns, &before, &plain);
    }
}

/// The buffer that is written.
fn written<'c>(columns: &'c mut CheckedColumns<'_>) -> &'c mut [u8] {
    match &mut columns.parts().0.data {
        DataBuffers::Separate(_, output) => output,
        DataBuffers::InPlace(data) => data,
        DataBuffers::Input(_) => &mut [],
    }
}

impl BrokenQueue {
    fn spoil(&self, columns: &mut CheckedColumns<'_>, before: &[ColumnStatus], plain: &[u8]) {
        let (layout, count) = (columns.layout(), columns.len());
        let failed: Vec<usize> = (0..count)
            .filter(|index| before[*index].is_pending() && columns.statuses()[*index] == ColumnStatus::AUTH_FAILED)
            .collect();
        let flip = |bytes: &mut [u8], at: usize| bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 0xff);
        match self.fault {
            Break::ReportsLeftOut => {
                let out = (0..count).filter(|index| before[*index] == ColumnStatus::LEFT_OUT);
                out.for_each(|index| columns.parts().1[index] = ColumnStatus::DONE);
            }
            Break::WritesBehind => flip(written(columns), layout.output_extent(count - 1).end),
            Break::WritesBefore => flip(written(columns), layout.output_extent(0).start.wrapping_sub(1)),
            Break::WritesNeighbour => {
                (0..count - 1).for_each(|index| flip(written(columns), layout.output_extent(index).end))
            }
            Break::SwapsTags if count > 1 && before[0].is_pending() && before[1].is_pending() => {
                swap_tags(columns);
            }
            Break::KeepsPlaintext => failed.iter().for_each(|index| {
                let data = layout.data(*index);
                let range = data.output..data.output + data.len;
                if let (Some(to), Some(from)) = (written(columns).get_mut(range.clone()), plain.get(range)) {
                    to.copy_from_slice(from);
                }
            }),
            Break::ZeroesNeighbour | Break::FailsNeighbour => {
                for index in failed.iter().map(|index| index + 1).filter(|index| *index < count) {
                    if !before[index].is_pending() {
                        continue;
                    }
                    let data = layout.data(index);
                    if matches!(self.fault, Break::FailsNeighbour) {
                        columns.set_status(index, ColumnStatus::AUTH_FAILED);
                    }
                    if let Some(bytes) = written(columns).get_mut(data.output..data.output + data.len) {
                        bytes.fill(0);
                    }
                }
            }
            Break::TrustsBorders if failed.contains(&511) => columns.set_status(511, ColumnStatus::DONE),
            Break::FlipsAtBorder if count > 513 => {
                let data = layout.data(513);
                if data.len > 0 {
                    flip(written(columns), data.output);
                }
            }
            Break::SpoilsIvs => {
                if let (Direction::Encrypt, IvPlace::Output(at)) = (columns.direction(), layout.iv(0)) {
                    flip(written(columns), at);
                }
            }
            Break::SpoilsTags if columns.direction() == Direction::Decrypt && before[0].is_pending() => {
                if let (TagPlace::Input(at), DataBuffers::InPlace(data)) =
                    (layout.tag(0, layout.data(0)), &mut columns.parts().0.data)
                {
                    flip(data, at);
                }
            }
            _ => {}
        }
    }
}

fn swap_tags(columns: &mut CheckedColumns<'_>) {
    let layout = columns.layout();
    let len = layout.tag_len();
    let places = [0, 1].map(|index| layout.tag(index, layout.data(index)));
    let buffers = columns.parts().0;
    let (bytes, [first, second]) = match (places, &mut buffers.data, &mut buffers.tags) {
        ([TagPlace::Column(first), TagPlace::Column(second)], _, TagBuffer::Written(tags)) => {
            (&mut **tags, [first, second])
        }
        ([TagPlace::Output(first), TagPlace::Output(second)], DataBuffers::Separate(_, data), _)
        | ([TagPlace::Output(first), TagPlace::Output(second)], DataBuffers::InPlace(data), _) => {
            (&mut **data, [first, second])
        }
        _ => return,
    };
    (0..len).for_each(|at| bytes.swap(first + at, second + at));
}

fn report(fault: Break, only: &str) -> Report {
    let engine = Broken { inner: Reference::new(), fault };
    check_engine(&engine, None, &Options { only: only.to_owned(), symmetric_cases_max: 20, ..Options::default() })
}

#[test]
fn sound_columns_pass() {
    for only in ["aes-128-gcm", "sha256", "ff1-aes-128", "aes-192-cmac", "des-cbc"] {
        report(Break::Nothing, only).assert_clean();
    }
}

/// The fault, the suites that it is tried on, and the checks that notice it.
#[test]
fn every_fault_of_columns_is_caught_by_the_check_meant_for_it() {
    let (shapes, batches, long, left_out, guards, keys) =
        ("columns", "column batches", "long columns", "columns left out", "column guards", "column keys");
    for (fault, only, checks) in [
        (Break::IgnoresLeftOut, "aes-128-ctr", &[left_out][..]),
        (Break::IgnoresLeftOut, "sha256", &[long, left_out]),
        (Break::ReportsLeftOut, "aes-256-gcm", &[long, left_out]),
        (Break::WritesBehind, "aes-128-cbc", &[shapes, batches]),
        (Break::WritesBefore, "aes-128-gcm", &[shapes, batches]),
        (Break::WritesNeighbour, "chacha20-poly1305", &[shapes, batches, long, guards]),
        (Break::SwapsTags, "aes-128-gcm", &[shapes, batches, guards]),
        (Break::SwapsTags, "hmac-sha256", &[shapes, batches, guards]),
        (Break::SwapsTags, "blake3", &[shapes, batches]),
        (Break::KeepsPlaintext, "aes-256-gcm", &[shapes, batches, long]),
        (Break::KeepsPlaintext, "aes-256-cbc+hmac-sha256", &[shapes, long]),
        (Break::ZeroesNeighbour, "chacha20-poly1305", &[shapes, long]),
        (Break::FailsNeighbour, "aes-128-cmac", &[shapes, long]),
        (Break::MixesKeys, "aes-256-xts", &[shapes, long]),
        (Break::ForgetsTheRest, "aes-192-ecb", &[long]),
        (Break::TrustsBorders, "aes-128-gcm", &[long]),
        (Break::FlipsAtBorder, "3des-cbc", &[long]),
        (Break::SpoilsIvs, "aes-128-ctr", &[shapes]),
        (Break::SpoilsTags, "aes-128-gcm", &[shapes]),
        (Break::ForgetsSingles, "sha1", &[batches, guards]),
        (Break::Panics, "blowfish-ecb", &[keys]),
        (Break::SkipsEmpty, "aes-128-gcm", &[shapes, long]),
        (Break::SkipsEmpty, "sha3-256", &[shapes, long]),
    ] {
        let report = report(fault, only);
        for check in checks {
            let found = report.failures.first();
            assert!(report.failed(check), "{fault:?} on {only} was not caught by `{check}`: {found:?}");
        }
        assert!(report.failures.iter().all(|failure| failure.check.contains("column")), "{fault:?}: {report:?}");
    }
}

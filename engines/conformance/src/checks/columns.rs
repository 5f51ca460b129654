//! Columns give what their operations give as ops: data, tags and statuses, in every layout.

use ciphermill_contract::{Direction, OpStatus, PreparedKey};
use ciphermill_vectors::Answer;

use super::{Context, Side, inverses};
use crate::columns::{ColumnLoad, Ivs, Lay, Layout, Tags};
use crate::execute::{Memory, Run};
use crate::jobs::{Damage, Item, authenticates, damaged, forward, iv_of_len, lengths, longest};
use crate::random::Rng;

/// Layouts in which every length is run. Those of digests and MACs fall together.
const LAYOUTS: [Layout; 11] = {
    use Lay::{Large, Offsets, Strided};
    [
        layout(false, [Offsets, Offsets, Offsets], Ivs::Each, Tags::After, true, true),
        layout(true, [Offsets, Offsets, Offsets], Ivs::Inline, Tags::After, false, false),
        layout(false, [Large, Large, Large], Ivs::Inline, Tags::Before, false, false),
        layout(true, [Large, Large, Offsets], Ivs::Counter, Tags::Column, true, false),
        layout(false, [Strided, Strided, Strided], Ivs::Inline, Tags::After, false, false),
        layout(true, [Strided, Strided, Large], Ivs::Inline, Tags::Before, true, true),
        layout(false, [Offsets, Large, Large], Ivs::Counter, Tags::Before, false, true),
        layout(false, [Large, Strided, Strided], Ivs::Each, Tags::Column, true, false),
        layout(true, [Offsets, Offsets, Strided], Ivs::Each, Tags::Before, false, true),
        layout(false, [Strided, Offsets, Offsets], Ivs::Inline, Tags::Column, true, false),
        layout(true, [Large, Large, Large], Ivs::Inline, Tags::Column, false, true),
    ]
};

const fn layout(in_place: bool, lays: [Lay; 3], ivs: Ivs, tags: Tags, one_key: bool, one_aad: bool) -> Layout {
    Layout { in_place, lays, ivs, tags, one_key, one_aad, memory: Memory::Heap }
}

/// Operations of the longest batch, several windows of every engine that works in windows; and of the longest that most
/// suites are run in, to save time: every third is run in the longest, so that one of three key sizes is.
const LONGEST: usize = 5000;
const LONG: usize = 2100;

/// Different operations of a long batch. They recur in an order that no window has as its length.
const DIFFERENT: usize = 457;

/// Operations after which engines may begin anew.
const BORDERS: [usize; 9] = [16, 64, 128, 256, 512, 1000, 1024, 2048, 4096];

impl Side<'_> {
    /// Runs operations as columns under the pool's keys; the engine must claim the direction.
    fn run_columns(
        &mut self,
        context: (ciphermill_contract::Suite, Direction),
        items: &[Item],
        left_out: &[usize],
        layout: Layout,
        rng: &mut Rng,
    ) -> Result<Run, String> {
        let (suite, direction) = context;
        let prepared = match direction {
            Direction::Encrypt => self.encrypt.as_ref(),
            Direction::Decrypt => self.decrypt.as_ref(),
        };
        let prepared = prepared.ok_or_else(|| format!("{direction} is not claimed"))?;
        let keys = match suite.needs_key() {
            true => items.iter().map(|item| prepared.get(item.key).and_then(Option::as_ref)).collect(),
            false => Vec::new(),
        };
        ColumnLoad { suite, direction, items, keys, left_out }.run(&mut *self.queue, layout, rng)
    }
}

impl Context<'_> {
    pub(super) fn columns(&mut self) {
        if !self.suite.takes_columns() {
            return;
        }
        self.column_shapes();
        self.column_batches();
        self.long_columns();
        self.columns_left_out();
        self.column_guards();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if self.engine.claims(direction) {
                self.columns_without_keys(direction);
            }
        }
    }

    /// A layout as this suite can have it.
    fn possible(&self, layout: Layout) -> Layout {
        let transforms = self.suite.transforms();
        let iv_len = self.suite.iv_len();
        let ivs = match layout.ivs {
            _ if iv_len.max == 0 => Ivs::Each,
            Ivs::Inline if !transforms => Ivs::Each,
            ivs => ivs,
        };
        let tags = if transforms { layout.tags } else { Tags::Column };
        let [input, output, aad] = layout.lays;
        let output = if transforms && !layout.in_place { output } else { input };
        Layout { in_place: layout.in_place && transforms, lays: [input, output, aad], ivs, tags, ..layout }
    }

    /// A layout at random.
    fn some_layout(&mut self) -> Layout {
        let rng = &mut self.rng;
        let mut lay = || [Lay::Offsets, Lay::Large, Lay::Strided, Lay::Spans][rng.below(4)];
        let lays = [lay(), lay(), lay()];
        let ivs = [Ivs::Each, Ivs::Counter, Ivs::Inline][rng.below(3)];
        let tags = [Tags::Before, Tags::After, Tags::Column][rng.below(3)];
        let [in_place, one_key, one_aad] = [rng.coin(), rng.coin(), rng.coin()];
        self.possible(layout(in_place, lays, ivs, tags, one_key, one_aad))
    }

    /// Forward operations of these lengths as the layout wants them; of the first one's where extents are strided.
    fn column_items(&mut self, layout: Layout, lens: &[usize]) -> Vec<Item> {
        let (suite, rng) = (self.suite, &mut self.rng);
        let uniform = layout.lays.contains(&Lay::Strided);
        let longest = lens.iter().max().copied().unwrap_or(0);
        let mut model = forward(suite, &self.pool, longest, rng);
        if layout.ivs == Ivs::Counter && model.job.iv.len() < 4 {
            // Only the synthetic IV mode has shorter ones.
            model.job.iv = rng.bytes(suite.iv_len().max);
        }
        let one = |(index, len): (usize, &usize)| {
            let len = if uniform { lens[0] } else { *len };
            let mut item = forward(suite, &self.pool, len, rng);
            item.job.tag = vec![0; model.job.tag.len()];
            item.job.iv = match layout.ivs {
                Ivs::Counter => counter_iv(&model.job.iv, index),
                _ => iv_of_len(suite, model.job.iv.len(), rng),
            };
            if layout.one_aad {
                item.job.aad.clone_from(&model.job.aad);
            } else if layout.lays[2] == Lay::Strided {
                item.job.aad = rng.bytes(model.job.aad.len());
            }
            if layout.one_key {
                item.key = model.key;
            }
            item
        };
        lens.iter().enumerate().map(one).collect()
    }

    /// Runs operations as columns and compares them with their answers as ops.
    fn columns_are(
        &mut self,
        direction: Direction,
        (items, expected): (&[Item], &[Answer]),
        left_out: &[usize],
        layout: Layout,
    ) {
        self.direction = direction;
        self.report.ops += items.len();
        let suite = (self.suite, direction);
        let run = match self.engine.run_columns(suite, items, left_out, layout, &mut self.rng) {
            Ok(run) => run,
            Err(error) => return self.fail(format!("{error}; {layout:?}")),
        };
        for trespass in run.trespasses {
            self.fail(format!("{trespass}; of {} operations, {layout:?}", items.len()));
        }
        let how = format!("{layout:?}");
        if left_out.is_empty() {
            return self.compare(items, &run.answers, expected, &how);
        }
        let mut is_out = vec![false; items.len()];
        left_out.iter().for_each(|index| is_out[*index] = true);
        for (index, (got, expected)) in run.answers.iter().zip(expected).enumerate() {
            if !is_out[index]
                && let Some(what) = super::difference(got, expected)
            {
                self.fail(format!("operation {index} of {}, others left out: {what}; {layout:?}", items.len()));
            }
        }
    }

    /// Forward and back in one layout. What is damaged on the way back is given by its index; each has to fail alone.
    fn columns_both_ways(&mut self, items: &[Item], left_out: &[usize], damages: &[usize], layout: Layout) {
        if let Some(answers) = self.forward_answers(items) {
            self.answered_both_ways((items, &answers), left_out, damages, layout);
        }
    }

    /// The same with the operations' answers as ops.
    fn answered_both_ways(
        &mut self,
        (items, answers): (&[Item], &[Answer]),
        left_out: &[usize],
        damages: &[usize],
        layout: Layout,
    ) {
        if self.engine.claims(Direction::Encrypt) {
            self.columns_are(Direction::Encrypt, (items, answers), left_out, layout);
        }
        if !self.engine.claims(Direction::Decrypt) {
            return;
        }
        let (mut back, mut expected) = inverses(self.suite, items, answers);
        if authenticates(self.suite) {
            for (number, index) in damages.iter().enumerate().filter(|(_, index)| **index < items.len()) {
                let damage = [Damage::TagFirst, Damage::TagLast, Damage::Input][number % 3];
                let damage = if back[*index].job.input.is_empty() { Damage::TagLast } else { damage };
                if let Some(job) = damaged(&back[*index].job, damage, &mut self.rng) {
                    expected[*index] =
                        Answer { status: OpStatus::AuthFailed, output: Vec::new(), tag: job.tag.clone() };
                    back[*index].job = job;
                }
            }
        }
        self.columns_are(Direction::Decrypt, (&back, &expected), left_out, layout);
    }

    /// Every length, in every layout a part of them, with damaged operations between whole ones.
    fn column_shapes(&mut self) {
        self.check = "columns";
        let lens = lengths(self.suite);
        let mut seen: Vec<Layout> = Vec::new();
        for (number, layout) in LAYOUTS.into_iter().enumerate() {
            let layout = self.possible(layout);
            if seen.contains(&layout) {
                continue;
            }
            seen.push(layout);
            let own: Vec<usize> = if layout.lays.contains(&Lay::Strided) {
                vec![lens[self.rng.below(lens.len().min(80))]; 9]
            } else {
                lens.iter().enumerate().filter(|(index, _)| index % 3 == number % 3).map(|(_, len)| *len).collect()
            };
            let items = self.column_items(layout, &own);
            let damages: Vec<usize> = (1..items.len()).step_by(4).collect();
            self.columns_both_ways(&items, &[], &damages, layout);
        }
    }

    /// Batches of few operations and, of another third of the suites, of a thousand, in layouts at random.
    fn column_batches(&mut self) {
        self.check = "column batches";
        let most = if self.suite.ordinal() % 3 == 1 { 1000 } else { 64 };
        for size in [1, 2, 7, 64, 1000].into_iter().filter(|size| *size <= most) {
            let layout = self.some_layout();
            let lens = self.column_lens(size);
            let items = self.column_items(layout, &lens);
            let mut damages = vec![size - 1, size / 2];
            damages.dedup();
            self.columns_both_ways(&items, &[], &damages, layout);
        }
    }

    /// Lengths that change every few hundred operations: all short, all alike, all empty, a long one among short ones.
    fn column_lens(&mut self, count: usize) -> Vec<usize> {
        let window = (count / 12).max(5) + self.rng.below(60);
        let of = |index: usize, rng: &mut Rng| match index / window % 5 {
            0 => rng.below(81),
            1 => 64,
            2 => [0, 16, 0, 17][index % 4],
            3 if index % window == window / 2 => 1500,
            3 => rng.below(40),
            _ => 32 + index % 5,
        };
        let max = if matches!(self.suite, ciphermill_contract::Suite::Fpe(_)) { 100 } else { usize::MAX };
        (0..count).map(|index| longest(self.suite, of(index, &mut self.rng).min(max), usize::MAX)).collect()
    }

    /// Whether this suite is run in the longest batch.
    fn is_longest(&self) -> bool {
        self.suite.ordinal().is_multiple_of(3)
    }

    /// Columns longer than any window: wrong tags at and around what may be borders, and whole windows left out.
    fn long_columns(&mut self) {
        self.check = "long columns";
        let mut layout = self.some_layout();
        // The keys differ, and so do the lengths.
        layout.one_key = false;
        layout.lays = layout.lays.map(|lay| if lay == Lay::Strided { Lay::Offsets } else { lay });
        // Counters would have to be as many as operations.
        if layout.ivs == Ivs::Counter {
            layout.ivs = Ivs::Each;
        }
        let count = if self.is_longest() { LONGEST } else { LONG };
        let lens = self.column_lens(DIFFERENT);
        let different = self.column_items(layout, &lens);
        let Some(answers) = self.forward_answers(&different) else { return };
        let recurring = (0..count).map(|index| index % DIFFERENT);
        let items: Vec<Item> = recurring.clone().map(|index| different[index].clone()).collect();
        let answers: Vec<Answer> = recurring.map(|index| answers[index].clone()).collect();
        let around = |border: &usize| [border - 1, *border, border + 1];
        let mut damages: Vec<usize> = BORDERS.iter().flat_map(around).chain([0, count - 1]).collect();
        damages.retain(|index| *index < count);
        damages.sort_unstable();
        damages.dedup();
        let window_out = if self.is_longest() { 2100..3200 } else { 1100..1700 };
        let left_out = window_out.chain((5..count).step_by(31)).filter(|index| !damages.contains(index));
        let left_out: Vec<usize> = left_out.collect();
        self.answered_both_ways((&items, &answers), &left_out, &damages, layout);
    }

    /// Operations that are left out: the first, the last, several in a row, all but one, all.
    fn columns_left_out(&mut self) {
        self.check = "columns left out";
        let count = 20;
        let wholes: [fn(usize) -> bool; 5] =
            [|at| at % 3 != 1, |at| at % 3 == 1, |at| at != 7, |at| (4..12).contains(&at), |_| true];
        for is_out in wholes {
            let layout = self.some_layout();
            let lens = self.column_lens(count);
            let items = self.column_items(layout, &lens);
            let left_out: Vec<usize> = (0..count).filter(|index| is_out(*index)).collect();
            self.columns_both_ways(&items, &left_out, &[1, 13], layout);
        }
    }

    /// Few operations whose columns all lie flush against inaccessible pages.
    fn column_guards(&mut self) {
        self.check = "column guards";
        for (number, len) in [0, 1, 15, 16, 17, 33, 47, 63, 64, 65, 80, 129].into_iter().enumerate() {
            let len = longest(self.suite, len, usize::MAX);
            for memory in [Memory::GuardedEnd, Memory::GuardedStart] {
                let mut layout = Layout { memory, ..self.some_layout() };
                layout.in_place &= number % 2 == 0;
                let count = [1, 2, 5][number % 3];
                let items = self.column_items(layout, &vec![len; count]);
                self.columns_both_ways(&items, &[], &[], layout);
            }
        }
    }

    /// Operations without a key, or with one that another engine prepared, fail alone and without a panic.
    fn columns_without_keys(&mut self, direction: Direction) {
        self.check = "column keys";
        if !self.suite.needs_key() {
            return;
        }
        let foreign = PreparedKey::new("no engine's key");
        for (replacement, one_key) in [(None, false), (Some(&foreign), false), (None, true), (Some(&foreign), true)] {
            let layout = Layout { one_key, ..self.some_layout() };
            let lens = [longest(self.suite, 40, usize::MAX); 3];
            let items = self.column_items(layout, &lens);
            let Some(answers) = self.forward_answers(&items) else { return };
            let items = if direction == Direction::Encrypt { items } else { inverses(self.suite, &items, &answers).0 };
            self.direction = direction;
            let Ok(prepared) = self.pool.prepare(self.engine.engine, direction) else { return };
            let key = |item: &Item| prepared.get(item.key).and_then(Option::as_ref);
            let mut keys: Vec<Option<&PreparedKey>> = items.iter().map(key).collect();
            keys[1] = replacement;
            if one_key {
                keys.fill(replacement);
            }
            self.report.ops += items.len();
            let load = ColumnLoad { suite: self.suite, direction, items: &items, keys, left_out: &[] };
            match load.run(&mut *self.engine.queue, layout, &mut self.rng) {
                Err(error) => self.fail(format!("without a key: {error}; {layout:?}")),
                Ok(run) => {
                    run.trespasses.into_iter().for_each(|trespass| self.fail(format!("without a key: {trespass}")));
                    for (index, answer) in run.answers.iter().enumerate() {
                        if answer.status.is_done() != (!one_key && index != 1) {
                            self.fail(format!("operation {index}, others without a key: {}", answer.status));
                        }
                    }
                }
            }
        }
    }
}

/// The IV that has `index` added to its last four bytes; the first one's sum has room for every index.
fn counter_iv(first: &[u8], index: usize) -> Vec<u8> {
    let (head, counter) = first.split_at(first.len() - 4);
    let counter = counter.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) & 0x7fff_ffff;
    [head, &(counter + index as u32).to_be_bytes()].concat()
}

//! Every length, batches of every size, and one long operation.

use ciphermill_contract::{Direction, OpStatus, capability};
use ciphermill_vectors::Answer;

use super::{Context, inverses};
use crate::execute::Style;
use crate::jobs::{Item, forward, lengths, longest, some_len};

/// Bytes of the long operation.
const LONG_LEN: usize = (1 << 20) + 5;

impl Context<'_> {
    /// Every length, in and out of place, forward and back.
    pub(super) fn shapes(&mut self) {
        self.check = "shapes";
        let items: Vec<Item> =
            lengths(self.suite).into_iter().map(|len| forward(self.suite, &self.pool, len, &mut self.rng)).collect();
        self.both_ways(&items, &[Style::SPREAD, Style::IN_PLACE]);
    }

    /// Batches of one to a thousand operations with lengths and keys at random.
    pub(super) fn batches(&mut self) {
        self.check = "batches";
        let public: &[usize] = &[1, 2, 5];
        let sizes: &[usize] = if self.suite.is_public_key() { public } else { &[1, 2, 17, 1000] };
        for size in sizes {
            let items: Vec<Item> = (0..*size)
                .map(|_| {
                    let len = some_len(self.suite, &mut self.rng);
                    forward(self.suite, &self.pool, len, &mut self.rng)
                })
                .collect();
            let style = if self.rng.coin() { Style::SPREAD } else { Style { gap: Some(0), ..Style::IN_PLACE } };
            self.both_ways(&items, &[style]);
            self.alone(&items);
        }
    }

    /// A megabyte, or as much as the suite and the engine take.
    pub(super) fn long(&mut self) {
        self.check = "long";
        let both = [Direction::Encrypt, Direction::Decrypt];
        let max = both
            .iter()
            .filter_map(|direction| capability::find(self.engine.engine.capabilities(), self.suite, *direction))
            .map(|capability| capability.input_len_max)
            .min()
            .unwrap_or(0);
        let len = longest(self.suite, LONG_LEN, max);
        let items = [forward(self.suite, &self.pool, len, &mut self.rng)];
        self.both_ways(&items, &[Style::IN_PLACE]);
    }

    /// Runs operations forward in each style and back again, and compares with the oracle.
    fn both_ways(&mut self, items: &[Item], styles: &[Style]) {
        let mut first: Option<Vec<Answer>> = None;
        if self.engine.claims(Direction::Encrypt) {
            for style in styles {
                let Some(answers) = self.engine_run(Direction::Encrypt, items, *style) else { return };
                self.all_done(items, &answers);
                if self.is_deterministic(Direction::Encrypt)
                    && let Some(first) = &first
                {
                    self.compare(items, &answers, first, "in place against out of place");
                }
                first = Some(answers);
            }
            if let Some(first) = &first
                && self.is_deterministic(Direction::Encrypt)
                && let Some(expected) = self.oracle_run(Direction::Encrypt, items)
            {
                self.compare(items, first, &expected, "against the oracle");
            }
        }
        if let Some(first) = &first {
            self.oracle_takes_back(items, first);
        }
        let from_oracle = self.oracle_run(Direction::Encrypt, items);
        for forward in first.into_iter().chain(from_oracle) {
            self.takes_back(items, &forward, styles);
        }
    }

    /// The engine's own way back from given answers.
    fn takes_back(&mut self, items: &[Item], forward: &[Answer], styles: &[Style]) {
        if !self.engine.claims(Direction::Decrypt) {
            return;
        }
        let (back, expected) = inverses(self.suite, items, forward);
        for style in styles {
            if let Some(got) = self.engine_run(Direction::Decrypt, &back, *style) {
                self.compare(&back, &got, &expected, "on the way back");
            }
        }
    }

    /// The oracle's way back from the engine's answers: the only test of a randomised direction.
    fn oracle_takes_back(&mut self, items: &[Item], forward: &[Answer]) {
        let (back, expected) = inverses(self.suite, items, forward);
        if !self.is_deterministic(Direction::Encrypt)
            && let Some(got) = self.oracle_run(Direction::Decrypt, &back)
        {
            self.compare(&back, &got, &expected, "on the oracle's way back");
        }
    }

    /// A batch gives what its operations give one by one.
    fn alone(&mut self, items: &[Item]) {
        let direction = Direction::Encrypt;
        if items.len() < 2 || !self.is_deterministic(direction) || !self.engine.claims(direction) {
            return;
        }
        let Some(together) = self.engine_run(direction, items, Style::SPREAD) else { return };
        for (item, expected) in items.iter().zip(&together).take(40) {
            let item = std::slice::from_ref(item);
            if let Some(got) = self.engine_run(direction, item, Style::SPREAD) {
                self.compare(item, &got, std::slice::from_ref(expected), "alone against among others");
            }
        }
    }

    fn all_done(&mut self, items: &[Item], answers: &[Answer]) {
        for (index, (item, answer)) in items.iter().zip(answers).enumerate() {
            if answer.status != OpStatus::Done {
                let len = item.job.input.len();
                self.fail(format!("operation {index}, {len} bytes of input: {}", answer.status));
            }
        }
    }
}

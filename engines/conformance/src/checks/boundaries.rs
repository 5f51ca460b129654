//! Inaccessible pages around the arena, and operations that are none of the engine's business.

use ciphermill_contract::{Direction, OpStatus, Reason};
use ciphermill_vectors::Answer;

use super::{Context, inverses};
use crate::execute::{Memory, Style};
use crate::jobs::{Item, forward, longest};

impl Context<'_> {
    /// Single operations flush against inaccessible pages, each part first and last in turn.
    pub(super) fn guards(&mut self) {
        self.check = "guards";
        let public: &[usize] = &[37];
        let lens: &[usize] = if self.suite.is_public_key() {
            public
        } else {
            &[0, 1, 7, 15, 16, 17, 31, 33, 47, 63, 64, 65, 80, 127, 129]
        };
        for len in lens {
            let len = longest(self.suite, *len, usize::MAX);
            let items = [forward(self.suite, &self.pool, len, &mut self.rng)];
            let Some(answers) = self.forward_answers(&items) else { return };
            if self.engine.claims(Direction::Encrypt) {
                let expected = self.is_deterministic(Direction::Encrypt).then_some(&answers[..]);
                self.guarded(Direction::Encrypt, &items, expected);
            }
            if self.engine.claims(Direction::Decrypt) {
                let (back, expected) = inverses(self.suite, &items, &answers);
                self.guarded(Direction::Decrypt, &back, Some(&expected));
            }
        }
    }

    fn guarded(&mut self, direction: Direction, items: &[Item], expected: Option<&[Answer]>) {
        let orders = if self.suite.is_public_key() { 2 } else { 4 };
        for order in 0..orders {
            for memory in [Memory::GuardedEnd, Memory::GuardedStart] {
                let style = Style { in_place: order == 3, gap: Some(0), order, memory };
                let Some(got) = self.engine_run(direction, items, style) else { continue };
                match expected {
                    Some(expected) => self.compare(items, &got, expected, "between guard pages"),
                    None if got.iter().any(|answer| !answer.status.is_done()) => {
                        self.fail("not done between guard pages")
                    }
                    None => {}
                }
            }
        }
    }

    /// Operations that were settled before stay as they are; those between them are done.
    pub(super) fn settled(&mut self) {
        self.check = "settled";
        let statuses = [
            OpStatus::Refused(Reason::KeyExpired),
            OpStatus::Done,
            OpStatus::AuthFailed,
            OpStatus::BadInput(Reason::InputTooLong),
            OpStatus::EngineFault,
        ];
        let count = if self.suite.is_public_key() { 4 } else { 15 };
        let items: Vec<Item> = (0..count)
            .map(|at| forward(self.suite, &self.pool, longest(self.suite, 5 * at, usize::MAX), &mut self.rng))
            .collect();
        let Some(answers) = self.forward_answers(&items) else { return };
        let settled: Vec<(usize, OpStatus)> = (0..count)
            .filter(|at| at % 3 != 0 || count == 4 && *at == 3)
            .map(|at| (at, statuses[at % statuses.len()]))
            .collect();
        if self.engine.claims(Direction::Encrypt) {
            let expected = self.is_deterministic(Direction::Encrypt).then_some(&answers[..]);
            self.settled_one_way(Direction::Encrypt, &items, expected, &settled);
        }
        if self.engine.claims(Direction::Decrypt) {
            let (back, expected) = inverses(self.suite, &items, &answers);
            self.settled_one_way(Direction::Decrypt, &back, Some(&expected), &settled);
        }
    }

    fn settled_one_way(
        &mut self,
        direction: Direction,
        items: &[Item],
        expected: Option<&[Answer]>,
        settled: &[(usize, OpStatus)],
    ) {
        self.direction = direction;
        let run = self.engine.run_some(self.suite, direction, items, settled, Style::SPREAD, &mut self.rng);
        self.report.ops += items.len();
        let run = match run {
            Ok(run) => run,
            Err(error) => return self.fail(error),
        };
        run.trespasses.into_iter().for_each(|trespass| self.fail(trespass));
        for (index, got) in run.answers.iter().enumerate() {
            if settled.iter().any(|(at, _)| *at == index) {
                continue;
            }
            let item = std::slice::from_ref(&items[index]);
            match expected {
                Some(expected) => {
                    self.compare(item, std::slice::from_ref(got), &expected[index..=index], "between settled ones");
                }
                None if !got.status.is_done() => self.fail(format!("operation {index}: {}", got.status)),
                None => {}
            }
        }
    }
}

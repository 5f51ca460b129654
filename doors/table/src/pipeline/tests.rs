//! The pipeline with strands that count, fail and panic.

use super::*;

/// Numbers below an end; `fails` is where there is none.
struct Numbers {
    next: usize,
    end: usize,
    strands: usize,
    cost: usize,
    fails: Option<usize>,
    panics: Option<usize>,
}

impl Feed for Numbers {
    type Item = usize;

    fn next(&mut self) -> Result<Option<Fed<usize>>> {
        assert_ne!(Some(self.next), self.panics, "asked to");
        if self.fails == Some(self.next) {
            return Err(TableError::Entropy);
        }
        self.next += 1;
        let fed = Fed { item: self.next - 1, strands: 0..self.strands, cost: self.cost };
        Ok((self.next <= self.end).then_some(fed))
    }
}

/// Each strand counts its items; one may fail or panic at one, and a stage at an item.
#[derive(Default)]
struct Counting {
    stages: Option<&'static [Stage]>,
    fails_in: Option<(usize, Stage)>,
    panics_in: Option<(usize, Stage)>,
    fails: Option<(usize, usize)>,
    panics: Option<(usize, usize)>,
    pieces: usize,
    begun: AtomicUsize,
}

impl Counting {
    fn step(&self, item: usize, stage: Stage) -> Result<()> {
        assert_ne!(Some((item, stage)), self.panics_in, "asked to");
        if self.fails_in == Some((item, stage)) { Err(TableError::NothingToDo) } else { Ok(()) }
    }
}

impl Work<usize, (usize, usize)> for Counting {
    type Piece = (usize, usize, usize);

    fn stages(&self) -> &'static [Stage] {
        self.stages.unwrap_or(&[Stage::Work])
    }

    fn prepare(&self, item: &usize) -> Result<()> {
        self.step(*item, Stage::Prepare)
    }

    fn mark(&self, item: &usize, (_, seen): &mut (usize, usize), _: &Asked<'_>) -> Result<()> {
        assert_eq!(item, seen, "a strand sees items in their order");
        self.step(*item, Stage::Mark)
    }

    fn finish(&self, item: &usize) -> Result<()> {
        self.step(*item, Stage::Finish)
    }

    fn work(
        &self,
        item: &usize,
        (strand, seen): &mut (usize, usize),
        _: &mut Scratch,
        asked: &Asked<'_>,
        emit: Emit<'_, (usize, usize, usize)>,
    ) -> Result<()> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        assert_ne!(Some((*item, *strand)), self.panics, "asked to");
        if self.fails == Some((*item, *strand)) {
            return Err(TableError::NothingToDo);
        }
        for _ in 0..self.pieces {
            asked.check()?;
            emit((*item, *strand, *seen)).map_err(|_| TableError::Interrupted)?;
        }
        *seen += 1;
        Ok(())
    }
}

#[derive(Default)]
struct Taken {
    pieces: Vec<(usize, usize, usize)>,
    ended: usize,
    refuses: Option<usize>,
}

impl Drain<usize, (usize, usize, usize)> for Taken {
    fn begin(&mut self, item: &usize) -> Result<()> {
        assert_eq!(*item, self.ended);
        Ok(())
    }

    fn take(&mut self, piece: (usize, usize, usize)) -> io::Result<()> {
        if self.refuses == Some(piece.0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.pieces.push(piece);
        Ok(())
    }

    fn refused(&self, _: io::Error) -> TableError {
        TableError::ManifestUnnamed
    }

    fn end(&mut self, _: Arc<usize>) -> Result<()> {
        self.ended += 1;
        Ok(())
    }
}

const STRANDS: usize = 5;

fn numbers(end: usize) -> Numbers {
    Numbers { next: 0, end, strands: STRANDS, cost: BYTES_AHEAD, fails: None, panics: None }
}

fn counting() -> Counting {
    Counting { pieces: 40, ..Counting::default() }
}

fn run_on(threads: usize, mut feed: Numbers, work: &Counting, drain: &mut Taken) -> Result<usize> {
    let mut strands: Vec<(usize, usize)> = (0..STRANDS).map(|strand| (strand, 0)).collect();
    let plan = Plan { threads, items_ahead: 3, cancel: &AtomicBool::new(false) };
    let mut after = 0;
    run(&mut feed, work, &mut strands, drain, &plan, &mut |_| after += 1)?;
    Ok(after)
}

#[test]
fn everything_arrives_in_order() {
    for threads in [1, 2, 3, 16] {
        let (work, mut drain) = (counting(), Taken::default());
        assert_eq!(run_on(threads, numbers(50), &work, &mut drain).unwrap(), 50);
        let wanted = (0..50).flat_map(|item| (0..STRANDS * 40).map(move |at| (item, at / 40, item)));
        assert!(drain.pieces.iter().copied().eq(wanted), "{threads} threads");
    }
}

/// What comes to light earlier but lies behind is not told, and not much is done past the first error.
#[test]
fn the_first_error_ends_it() {
    for threads in [1, 2, 3, 16] {
        let work = Counting { fails: Some((20, 3)), ..counting() };
        let feed = Numbers { fails: Some(22), ..numbers(1000) };
        let mut drain = Taken::default();
        assert!(matches!(run_on(threads, feed, &work, &mut drain), Err(TableError::NothingToDo)));
        assert_eq!((drain.ended, drain.pieces.len()), (20, (20 * STRANDS + 3) * 40));
        let feed = Numbers { fails: Some(20), ..numbers(1000) };
        assert!(matches!(run_on(threads, feed, &work, &mut Taken::default()), Err(TableError::Entropy)));
        let (work, mut drain) = (counting(), Taken { refuses: Some(7), ..Taken::default() });
        let refused = run_on(threads, numbers(1000), &work, &mut drain);
        assert!(matches!(refused, Err(TableError::ManifestUnnamed | TableError::Interrupted)));
        assert!(work.begun.load(Ordering::Relaxed) <= (7 + 4) * STRANDS, "items ahead are bounded");
    }
}

const ALL: &[Stage] = &[Stage::Prepare, Stage::Mark, Stage::Work, Stage::Finish];

#[test]
fn items_go_through_their_stages_in_order() {
    for threads in [1, 2, 3, 16] {
        for stages in [ALL, &ALL[..3], &ALL[1..3], &ALL[2..]] {
            let (work, mut drain) = (Counting { stages: Some(stages), ..counting() }, Taken::default());
            assert_eq!(run_on(threads, numbers(50), &work, &mut drain).unwrap(), 50);
            let wanted = (0..50).flat_map(|item| (0..STRANDS * 40).map(move |at| (item, at / 40, item)));
            assert!(drain.pieces.iter().copied().eq(wanted), "{threads} threads, {stages:?}");
        }
        // Items without strands have the other stages.
        let (work, mut drain) = (Counting { stages: Some(ALL), ..counting() }, Taken::default());
        assert_eq!(run_on(threads, Numbers { strands: 0, ..numbers(9) }, &work, &mut drain).unwrap(), 9);
    }
}

#[test]
fn a_stage_that_fails_or_panics_ends_it() {
    for threads in [1, 2, 3, 16] {
        for stage in [Stage::Prepare, Stage::Mark, Stage::Finish] {
            let work = Counting { stages: Some(ALL), fails_in: Some((20, stage)), ..counting() };
            let mut drain = Taken::default();
            let ended = run_on(threads, numbers(1000), &work, &mut drain);
            assert!(matches!(ended, Err(TableError::NothingToDo)), "{stage:?}");
            assert_eq!(drain.ended, 20, "{stage:?}");
            if threads > 1 {
                let work = Counting { stages: Some(ALL), panics_in: Some((9, stage)), ..counting() };
                let mut drain = Taken::default();
                let ended = run_on(threads, numbers(1000), &work, &mut drain);
                assert!(matches!(ended, Err(TableError::Panicked)), "{stage:?}");
                assert_eq!(drain.ended, 9, "{stage:?}");
            }
        }
    }
}

#[test]
fn a_thread_that_panics_is_an_error() {
    for threads in [2, 3, 16] {
        let work = Counting { panics: Some((9, 2)), ..counting() };
        let mut drain = Taken::default();
        assert!(matches!(run_on(threads, numbers(1000), &work, &mut drain), Err(TableError::Panicked)));
        assert_eq!(drain.ended, 9);
        let feed = Numbers { panics: Some(9), ..numbers(1000) };
        let mut drain = Taken::default();
        assert!(matches!(run_on(threads, feed, &counting(), &mut drain), Err(TableError::Panicked)));
        assert_eq!(drain.ended, 9);
    }
}

#[test]
fn threads_are_bounded() {
    assert_eq!((threads(Some(0)), threads(Some(7)), threads(Some(usize::MAX))), (1, 7, THREADS_MAX));
    assert!(threads(None) >= 1);
}

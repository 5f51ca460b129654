use super::super::rungs::RUNGS;
use super::*;

/// A rung whose batches cost exactly this, with operations of 44 bytes, and of 8 and 80 for the fit.
fn reached(place: usize, cost: Cost) -> Reached {
    let taken = |ops: usize, len: usize| Taken {
        rung: place,
        ops,
        bytes: (ops * len) as f64,
        ns: cost.predict_ns(ops as u64, (ops * len) as u64),
        spread: 0.01,
    };
    let points = [1, 8, 64, 512, 4096].map(|ops| taken(ops, 44)).to_vec();
    let others: Vec<Taken> = [8, 80].iter().flat_map(|len| [1, 64, 1024].map(|ops| taken(ops, *len))).collect();
    Reached::new(&RUNGS[place], points, &others)
}

#[test]
fn the_fit_finds_the_terms_and_names_the_dominating_one() {
    for (cost, small, large) in [
        (Cost::new(50_000.0, 100.0, 1.0), Term::Batch, Term::Op),
        (Cost::new(10.0, 3000.0, 1.0), Term::Op, Term::Op),
        (Cost::new(100_000.0, 10.0, 20.0), Term::Batch, Term::Byte),
        (Cost::new(1.0, 10.0, 20.0), Term::Byte, Term::Byte),
    ] {
        let reached = reached(0, cost);
        let fit = reached.fit.expect("there are points").cost;
        for (found, put) in [(fit.batch_ns, cost.batch_ns), (fit.op_ns, cost.op_ns), (fit.byte_ns, cost.byte_ns)] {
            assert!((found - put).abs() <= 0.02 * put + 1.0, "{found} for {put}");
        }
        assert_eq!((dominating(&fit, 1.0, 44.0).0, dominating(&fit, 4096.0, 44.0).0), (small, large));
        let sentence = dominance(&reached).expect("a sentence");
        assert!(sentence.contains(small.words()) && sentence.contains(large.words()), "{sentence}");
        assert_eq!(sentence.contains("dominates from 1 to 4096"), small == large, "{sentence}");
    }
}

#[test]
fn shares_add_up_and_halves_are_where_they_are() {
    let cost = Cost::new(1000.0, 56.0, 1.0);
    let [batch, op, byte] = shares(&cost, 10.0, 44.0);
    assert!((batch + op + byte - 1.0).abs() < 1e-12);
    assert!((batch - 0.5).abs() < 1e-12, "ten operations of 100 ns are as much as the batch");
    assert_eq!(batch_is_half(&cost, 44.0), Some(10.0));
    assert_eq!(batch_is_half(&Cost::new(7.0, 0.0, 0.0), 44.0), None);
    assert_eq!(shares(&Cost::new(0.0, 0.0, 0.0), 1.0, 1.0), [0.0; 3]);
}

/// Rungs whose rates for large batches stand in these relations, from ten kilobytes a second on.
fn climb(factors: &[f64]) -> Vec<Reached> {
    let mut op_ns = 44.0 * 1e6 / 10.0;
    let mut climb = vec![reached(0, Cost::new(0.0, op_ns, 0.0))];
    for (index, factor) in factors.iter().enumerate() {
        op_ns /= factor;
        climb.push(reached(index + 1, Cost::new(0.0, op_ns, 0.0)));
    }
    climb
}

#[test]
fn steps_are_ours_beside_the_papers() {
    let climb = climb(&[2.0, 40.0 / 23.0, 9.0, 1.0, 2.5, 0.5, 1.01]);
    let steps = steps(&climb);
    assert_eq!(steps.len(), 7);
    assert!((steps[0].ours - 2.0).abs() < 1e-6 && (steps[0].theirs.expect("both") - 23.0 / 12.0).abs() < 1e-9);
    assert!(!steps[0].differs() && steps[0].is_better());
    assert!(steps[4].is_better() && steps[4].differs(), "checking made the paper's slower");
    assert!(steps[5].is_worse() && steps[5].theirs.is_none(), "the paper has no lanes");
    assert!(!steps[6].is_worse() && !steps[6].is_better(), "within the doubt");
    let conclusions = conclusions(&climb, Some(2000.0));
    let find = |start: &str| {
        conclusions
            .iter()
            .find(|sentence| sentence.starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {conclusions:?}"))
    };
    assert!(find("From rung 1 (10.0 KB/s) to rung 8").contains("×78.3"), "{conclusions:?}");
    assert!(
        find("The largest step").contains("to rung 3") && find("The largest step").contains("so it was in the paper")
    );
    assert!(find("Worse than the one before: rung 9 (lanes, ×0.50)").contains("rung 4 ("));
    assert!(find("The step from rung 4 to rung 8").contains("×2.50 here and ×0.60 in the paper"));
    assert!(find("One long operation").contains("0.5 % of that on rung 1"));
    assert!(find("One long operation").contains("15 % of 20.0 MB/s"));
}

#[test]
fn a_climb_without_a_bad_step_says_so() {
    let sentences = conclusions(&climb(&[2.0, 2.0]), None);
    assert!(sentences.iter().any(|sentence| sentence == "No rung made the best rate worse than the one before."));
    assert!(!sentences.iter().any(|sentence| sentence.starts_with("One long operation")));
    assert_eq!(conclusions(&[], None), Vec::<String>::new());
}

#[test]
fn figures_have_three_digits() {
    assert_eq!(rate(1.54), "1.5 KB/s");
    assert_eq!(rate(320.4), "320 KB/s");
    assert_eq!(rate(2512.0), "2.51 MB/s");
    assert_eq!(rate(25_120.0), "25.1 MB/s");
    assert_eq!(rate(251_200.0), "251 MB/s");
    assert_eq!(rate(2_512_000.0), "2.51 GB/s");
    assert_eq!((times(0.5), times(12.34), times(250.4)), ("×0.50".into(), "×12.3".into(), "×250".into()));
}

//! What changed between two records.

use std::collections::BTreeMap;

use crate::estimate::SPREAD_QUOTABLE_MAX;
use crate::machine::Machine;
use crate::model::{Better, Environment, Measurement, Record, Section};
use crate::table::{Cell, Emphasis, Table};
use crate::words::{count, date, figure, percent, whole_percent};

/// Two records side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// When the first was made, and on which processor.
    before: Origin,
    /// The same of the second.
    after: Origin,
    /// What is different about the measuring itself, in words.
    pub differences: Vec<String>,
    /// The figures that both have: what changed most first, what is within the noise last.
    pub changes: Vec<Change>,
    /// Figures that only the first has: section and name.
    pub only_before: Vec<(String, String)>,
    /// Figures that only the second has: section and name.
    pub only_after: Vec<(String, String)>,
    /// What forbids quoting either record, in words.
    pub warnings: Vec<String>,
    /// The second record without its sections, for showing the comparison as a record.
    frame: Record,
}

#[derive(Clone, Debug, PartialEq)]
struct Origin {
    made: String,
    cpu: String,
}

/// A figure in both records.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The section's method.
    pub method: String,
    /// The figure's name.
    pub name: String,
    /// What was measured first.
    pub before: Measurement,
    /// What was measured then.
    pub after: Measurement,
    /// How far the larger is above the smaller, as a share of the smaller; infinite where one of them is zero or their
    /// signs differ.
    pub size: f64,
    /// The share that a change must exceed to be one: both spreads together, and [`SPREAD_QUOTABLE_MAX`] at least.
    pub noise: f64,
    /// What the change is.
    pub verdict: Verdict,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Beyond the noise, to the better.
    Better,
    /// Beyond the noise, to the worse.
    Worse,
    /// Beyond the noise, of a figure that is neither good nor bad.
    Changed,
    /// Not beyond the noise.
    WithinNoise,
    /// The unit or the direction is another: these figures cannot be compared.
    Incomparable,
}

/// Compares two records figure by figure: those of the same section and name.
pub fn compare(before: &Record, after: &Record) -> Comparison {
    let (first, then) = (figures(before), figures(after));
    let mut changes: Vec<Change> = first
        .iter()
        .filter_map(|((method, name), before)| {
            let after = then.get(&(*method, *name))?;
            Some(Change::new(method, name, before, after))
        })
        .collect();
    // The names break ties, so that the same records always give the same table.
    let real = |change: &Change| change.verdict == Verdict::WithinNoise;
    changes.sort_by(|a, b| {
        let names = |change: &Change| (change.method.clone(), change.name.clone());
        real(a).cmp(&real(b)).then(b.size.total_cmp(&a.size)).then_with(|| names(a).cmp(&names(b)))
    });
    let alone = |here: &Figures<'_>, there: &Figures<'_>| -> Vec<(String, String)> {
        let missing = here.keys().filter(|key| !there.contains_key(*key));
        missing.map(|(method, name)| ((*method).to_owned(), (*name).to_owned())).collect()
    };
    let warn = |which: &str, record: &Record| -> Vec<String> {
        record.warnings().iter().map(|warning| format!("{which} record: {warning}")).collect()
    };
    let origin = |record: &Record| Origin { made: record.made.clone(), cpu: record.machine.cpu.clone() };
    Comparison {
        before: origin(before),
        after: origin(after),
        differences: differences(before, after),
        changes,
        only_before: alone(&first, &then),
        only_after: alone(&then, &first),
        warnings: [warn("First", before), warn("Second", after)].concat(),
        frame: Record { sections: Vec::new(), ..after.clone() },
    }
}

type Figures<'a> = BTreeMap<(&'a str, &'a str), &'a Measurement>;

fn figures(record: &Record) -> Figures<'_> {
    let sections = record.sections.iter();
    sections.flat_map(|section| section.measurements.iter().map(|m| ((&*section.method, &*m.name), m))).collect()
}

/// What is different about the measuring: figures of different machines or builds differ for that reason alone.
fn differences(before: &Record, after: &Record) -> Vec<String> {
    let (one, other) = (&before.machine, &after.machine);
    let mut differences = Vec::new();
    let mut differ = |what: &str, before: &str, after: &str| {
        if before != after {
            differences.push(format!("{what}: first {before}, then {after}."));
        }
    };
    differ("Different processors", &one.cpu, &other.cpu);
    differ("Different numbers of cores", &one.cores.to_string(), &other.cores.to_string());
    differ("Different instruction sets", &one.features.join(" "), &other.features.join(" "));
    differ("Different systems", &one.os, &other.os);
    differ("Different versions of the program", &one.ciphermill, &other.ciphermill);
    let build = |optimised: bool| if optimised { "with optimisation" } else { "without optimisation" };
    differ("Different builds", build(one.optimised), build(other.optimised));
    // Spreads mean another thing in each.
    differ("Different formats of the records", &before.format.to_string(), &after.format.to_string());
    differ("Different commands", &before.command, &after.command);
    differences
}

impl Change {
    fn new(method: &str, name: &str, before: &Measurement, after: &Measurement) -> Change {
        let size = distance(before.value, after.value);
        let noise = (before.spread + after.spread).max(SPREAD_QUOTABLE_MAX);
        let verdict = if before.unit != after.unit || before.better != after.better {
            Verdict::Incomparable
        } else if size <= noise {
            Verdict::WithinNoise
        } else {
            match (after.better, after.value > before.value) {
                (Better::Neither, _) => Verdict::Changed,
                (Better::More, true) | (Better::Less, false) => Verdict::Better,
                (Better::More, false) | (Better::Less, true) => Verdict::Worse,
            }
        };
        let (method, name) = (method.to_owned(), name.to_owned());
        Change { method, name, before: before.clone(), after: after.clone(), size, noise, verdict }
    }

    /// The change in words, as a share of what was measured first: `+12 %`.
    fn in_words(&self) -> String {
        if self.verdict == Verdict::Incomparable {
            return "—".to_owned();
        }
        if self.size.is_infinite() {
            return if self.before.value == 0.0 { "from zero" } else { "to zero or across it" }.to_owned();
        }
        let share = (self.after.value - self.before.value) / self.before.value.abs();
        // A twentyfold rise is easier to read as one than as a percentage.
        match (self.before.value, share.abs()) {
            (0.0, _) => "none".to_owned(),
            (_, size) if size > 4.0 => format!("× {}", figure(self.after.value / self.before.value)),
            (_, size) if size < 0.0005 => percent(0.0),
            // A minus sign as wide as the plus.
            _ => format!("{}{}", if share > 0.0 { "+" } else { "−" }, percent(share.abs())),
        }
    }

    fn is_noisy(&self) -> bool {
        self.before.is_noisy() || self.after.is_noisy()
    }
}

/// How far the larger is above the smaller, as a share of the smaller: the same whichever came first.
fn distance(one: f64, other: f64) -> f64 {
    if one == other {
        return 0.0;
    }
    if !one.is_finite() || !other.is_finite() || one * other.signum() <= 0.0 {
        return f64::INFINITY;
    }
    let (low, high) = (one.abs().min(other.abs()), one.abs().max(other.abs()));
    high / low - 1.0
}

impl Verdict {
    /// The verdict in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Changed => "changed",
            Verdict::WithinNoise => "within noise",
            Verdict::Incomparable => "another unit",
        }
    }

    fn emphasis(self) -> Emphasis {
        match self {
            Verdict::Better => Emphasis::Good,
            Verdict::Worse => Emphasis::Bad,
            Verdict::Changed | Verdict::WithinNoise => Emphasis::Plain,
            Verdict::Incomparable => Emphasis::Doubtful,
        }
    }
}

impl Comparison {
    /// How many figures got this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.changes.iter().filter(|change| change.verdict == verdict).count()
    }

    /// The comparison as a section that can be shown like any other.
    pub fn section(&self) -> Section {
        let (before, after) = (&self.before, &self.after);
        let mut section = Section::new("compare", "What changed between two records", "");
        section.lesson.push(format!(
            "Figures of the same name in two records, the first made {} on {}, the second {} on {}. A change counts when it \
             is larger than the spreads of both figures together, and than {}; anything less is within the noise.",
            date(&before.made),
            before.cpu,
            date(&after.made),
            after.cpu,
            whole_percent(SPREAD_QUOTABLE_MAX)
        ));
        section.conclusions = self.conclusions();
        let real: Vec<&Change> = self.changes.iter().filter(|c| c.verdict != Verdict::WithinNoise).collect();
        if !real.is_empty() {
            section.tables.push(table("Changes beyond the noise, the largest first", &real));
        }
        let quiet: Vec<&Change> = self.changes.iter().filter(|c| c.verdict == Verdict::WithinNoise).collect();
        if !quiet.is_empty() {
            section.tables.push(table("Within the noise", &quiet));
        }
        let mut alone = Table::new("In one record alone", &["figure", "only in"], 2);
        for (figures, record) in [(&self.only_before, "the first"), (&self.only_after, "the second")] {
            figures.iter().for_each(|(method, name)| alone.row([format!("{method}: {name}").into(), record.into()]));
        }
        if !alone.rows.is_empty() {
            section.tables.push(alone);
        }
        section
    }

    /// The comparison as a record, for [`crate::html`]: the second record's machine, the warnings of both.
    pub fn record(&self, command: &str) -> Record {
        // The build is spoken of in the warnings already.
        let machine = Machine { optimised: true, ..self.frame.machine.clone() };
        let environment = Environment { warnings: self.warnings.clone(), ..self.frame.environment.clone() };
        Record {
            command: command.to_owned(),
            machine,
            environment,
            sections: vec![self.section()],
            ..self.frame.clone()
        }
    }

    fn conclusions(&self) -> Vec<String> {
        let mut said = self.differences.clone();
        if !said.is_empty() {
            said.push("What follows may come from these differences and from nothing else.".to_owned());
        }
        if self.changes.is_empty() {
            said.push("The records have no figure in common.".to_owned());
        } else {
            said.push(self.tally());
        }
        for (verdict, words) in [(Verdict::Better, "gain"), (Verdict::Worse, "loss")] {
            if let Some(change) = self.changes.iter().find(|change| change.verdict == verdict) {
                said.push(format!(
                    "The largest {words}: {} of {}, from {} to {} {} ({}).",
                    change.name,
                    change.method,
                    figure(change.before.value),
                    figure(change.after.value),
                    change.after.unit,
                    change.in_words()
                ));
            }
        }
        let beyond = [Verdict::Better, Verdict::Worse, Verdict::Changed];
        let doubtful = self.changes.iter().filter(|c| c.is_noisy() && beyond.contains(&c.verdict)).count();
        if doubtful > 0 {
            said.push(format!(
                "Of the changes beyond the noise {doubtful} involve a noisy figure: measure again before quoting them."
            ));
        }
        let (before, after) = (self.only_before.len(), self.only_after.len());
        if before + after > 0 {
            said.push(format!("Figures in one record alone: {before} only in the first, {after} only in the second."));
        }
        said
    }

    /// How many figures got which verdict, in a sentence.
    fn tally(&self) -> String {
        let (better, worse) = (self.count(Verdict::Better), self.count(Verdict::Worse));
        let (changed, incomparable) = (self.count(Verdict::Changed), self.count(Verdict::Incomparable));
        let mut sentence = format!("Of {} in both records, ", count(self.changes.len(), "figure", "figures"));
        if better + worse + changed == 0 {
            sentence.push_str("none changed beyond the noise");
        } else {
            sentence.push_str(&format!("{better} became better and {worse} worse"));
            if changed > 0 {
                sentence.push_str(&format!(", {changed} changed without being better or worse"));
            }
            sentence.push_str(&format!("; {} stayed within the noise", self.count(Verdict::WithinNoise)));
        }
        if incomparable > 0 {
            sentence.push_str(&format!("; {incomparable} cannot be compared, since the unit is another"));
        }
        sentence + "."
    }
}

fn table(title: &str, changes: &[&Change]) -> Table {
    let mut table = Table::new(title, &["figure", "before", "after", "unit", "change", "noise", "verdict"], 1);
    for index in [3, 6] {
        table.columns[index].align = crate::table::Align::Left;
    }
    for change in changes {
        let value = |measurement: &Measurement| {
            let mark = if measurement.is_noisy() { "~" } else { "" };
            let emphasis = if measurement.is_noisy() { Emphasis::Doubtful } else { Emphasis::Plain };
            Cell::from(format!("{mark}{}", figure(measurement.value))).emphasis(emphasis)
        };
        let unit = if change.before.unit == change.after.unit {
            change.after.unit.clone()
        } else {
            format!("{} → {}", change.before.unit, change.after.unit)
        };
        table.row([
            format!("{}: {}", change.method, change.name).into(),
            value(&change.before),
            value(&change.after),
            unit.into(),
            Cell::from(change.in_words()).emphasis(change.verdict.emphasis()),
            percent(change.noise).into(),
            Cell::from(change.verdict.word()).emphasis(change.verdict.emphasis()),
        ]);
    }
    table.note =
        "Before and after: medians. Noise: the spreads of both together, what a change must exceed. ~ marks a \
                  figure that spreads too much to be quoted."
            .to_owned();
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    fn record(figures: &[(&str, f64, &str, f64, Better)]) -> Record {
        let mut section = Section::new("ladder", "t", "s");
        for (name, value, unit, spread, better) in figures {
            section.measured(*name, *value, unit, *spread, *better);
        }
        Record { sections: vec![section], ..sample::record() }
    }

    fn one(before: (f64, f64), after: (f64, f64), better: Better) -> Change {
        let figure = |(value, spread)| record(&[("a", value, "ns", spread, better)]);
        compare(&figure(before), &figure(after)).changes.remove(0)
    }

    #[test]
    fn a_change_must_exceed_the_noise() {
        let verdict = |before, after, better| one(before, after, better).verdict;
        assert_eq!(verdict((100.0, 0.0), (104.9, 0.0), Better::More), Verdict::WithinNoise);
        assert_eq!(verdict((100.0, 0.0), (105.1, 0.0), Better::More), Verdict::Better);
        assert_eq!(verdict((100.0, 0.0), (105.1, 0.0), Better::Less), Verdict::Worse);
        assert_eq!(verdict((100.0, 0.0), (94.0, 0.0), Better::Less), Verdict::Better);
        assert_eq!(verdict((100.0, 0.0), (94.0, 0.0), Better::More), Verdict::Worse);
        assert_eq!(verdict((100.0, 0.0), (94.0, 0.0), Better::Neither), Verdict::Changed);
        // Both spreads count: 8 % and 3 % hide a change of 10 %, and not one of 12 %.
        assert_eq!(verdict((100.0, 0.08), (110.0, 0.03), Better::More), Verdict::WithinNoise);
        assert_eq!(verdict((100.0, 0.08), (112.0, 0.03), Better::More), Verdict::Better);
        assert_eq!(verdict((0.0, 0.0), (0.0, 0.0), Better::More), Verdict::WithinNoise);
        assert_eq!(verdict((0.0, 0.0), (1.0, 0.0), Better::Less), Verdict::Worse);
        assert_eq!(verdict((-1.0, 0.0), (1.0, 0.0), Better::More), Verdict::Better);
        assert_eq!(verdict((-2.0, 0.0), (-1.0, 0.0), Better::More), Verdict::Better);
    }

    #[test]
    fn changes_are_said_in_words() {
        let words = |before, after| one((before, 0.0), (after, 0.0), Better::More).in_words();
        assert_eq!(words(100.0, 150.0), "+50\u{a0}%");
        assert_eq!(words(150.0, 100.0), "−33\u{a0}%");
        assert_eq!(words(100.0, 1200.0), "× 12");
        assert_eq!(words(0.0, 12.0), "from zero");
        assert_eq!(words(12.0, 0.0), "to zero or across it");
        assert_eq!(words(0.0, 0.0), "none");
        assert_eq!(words(100.0, 99.99), "0.0\u{a0}%");
    }

    #[test]
    fn the_largest_change_stands_first_and_the_noise_last() {
        let before = record(&[
            ("small", 100.0, "ns", 0.0, Better::Less),
            ("large", 100.0, "ns", 0.0, Better::Less),
            ("noisy", 100.0, "ns", 0.9, Better::Less),
            ("gone", 1.0, "ns", 0.0, Better::Less),
            ("unit", 1.0, "ns", 0.0, Better::Less),
        ]);
        let after = record(&[
            ("small", 110.0, "ns", 0.0, Better::Less),
            ("large", 50.0, "ns", 0.0, Better::Less),
            ("noisy", 150.0, "ns", 0.0, Better::Less),
            ("new", 1.0, "ns", 0.0, Better::Less),
            ("unit", 1.0, "µs", 0.0, Better::Less),
        ]);
        let comparison = compare(&before, &after);
        let names: Vec<&str> = comparison.changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["large", "small", "unit", "noisy"]);
        let verdicts: Vec<Verdict> = comparison.changes.iter().map(|change| change.verdict).collect();
        let wanted = [Verdict::Better, Verdict::Worse, Verdict::Incomparable, Verdict::WithinNoise];
        assert_eq!(verdicts, wanted);
        assert_eq!(comparison.only_before, [("ladder".to_owned(), "gone".to_owned())]);
        assert_eq!(comparison.only_after, [("ladder".to_owned(), "new".to_owned())]);
        assert!(comparison.differences.is_empty());

        let section = comparison.section();
        section.check().expect("a comparison keeps the rules of sections");
        assert_eq!(section.tables[0].rows.len(), 3);
        assert_eq!(section.tables[0].rows[0][4].text, "−50\u{a0}%");
        assert_eq!(section.tables[1].rows.len(), 1);
        let alone: Vec<&str> = section.tables[2].rows.iter().map(|row| row[0].text.as_str()).collect();
        assert_eq!(alone, ["ladder: gone", "ladder: new"]);
        let said = section.conclusions.join("\n");
        assert!(said.contains("Of 4 figures in both records, 1 became better and 1 worse; 1 stayed"), "{said}");
        assert!(said.contains("The largest gain: large of ladder, from 100 to 50 ns (−50\u{a0}%)."), "{said}");
        assert!(said.contains("The largest loss: small of ladder, from 100 to 110 ns (+10\u{a0}%)."), "{said}");
        assert!(crate::terminal(&section, 80, false).contains("large"));
    }

    #[test]
    fn other_machines_and_builds_are_said() {
        let before = record(&[("a", 1.0, "ns", 0.0, Better::Less)]);
        let mut after = before.clone();
        after.machine.cpu = "Another".to_owned();
        after.machine.optimised = false;
        after.format = 1;
        let comparison = compare(&before, &after);
        assert_eq!(comparison.differences.len(), 3);
        assert!(comparison.differences[2].contains("formats of the records: first 2, then 1"));
        assert!(comparison.differences[0].contains("Another"));
        let said = comparison.section().conclusions.join("\n");
        assert!(said.contains("Different processors") && said.contains("none changed beyond the noise"), "{said}");
        let shown = comparison.record("ciphermill lab compare a b");
        shown.check().expect("a comparison is a record like any other");
        assert!(crate::html(&shown).contains("Different processors"));
    }

    #[test]
    fn records_without_a_common_figure_are_said() {
        let none = record(&[]);
        let said = compare(&none, &record(&[("a", 1.0, "ns", 0.0, Better::Less)])).section().conclusions.join("\n");
        assert!(said.contains("no figure in common") && said.contains("1 only in the second"), "{said}");
    }

    proptest! {
        /// Which record comes first turns the verdict round and changes nothing else.
        #[test]
        fn the_order_turns_the_verdict_round(
            a in -1e6..1e6_f64, b in -1e6..1e6_f64, spread in 0.0..0.3_f64, more in any::<bool>(),
        ) {
            let better = if more { Better::More } else { Better::Less };
            let (there, back) = (one((a, spread), (b, 0.01), better), one((b, 0.01), (a, spread), better));
            let turned = match there.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                other => other,
            };
            prop_assert_eq!(turned, back.verdict);
            prop_assert_eq!(there.size, back.size);
        }
    }
}

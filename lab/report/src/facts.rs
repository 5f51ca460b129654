//! What every way of showing a record says about its machine.

use crate::estimate::SPREAD_QUOTABLE_MAX;
use crate::model::{Environment, Record};
use crate::words::{count, figure, percent, whole_percent};

impl Record {
    /// What forbids quoting the record, in words, each with what to try; empty when nothing does. Besides what the
    /// environment says, a build without optimisation counts, and a share of noisy ratios, or of noisy figures where the
    /// record has no ratios.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.environment.warnings.clone();
        if !self.machine.optimised && !warnings.iter().any(|warning| warning.contains("optimis")) {
            let advice =
                "The program was built without optimisation, so its figures mean nothing: build with --release.";
            warnings.push(advice.to_owned());
        }
        let all = || self.sections.iter().flat_map(|section| &section.measurements);
        let has_ratios = all().any(|measurement| measurement.interval.is_some());
        let judged = || all().filter(|measurement| measurement.interval.is_some() == has_ratios);
        let (noisy, judged) = (judged().filter(|measurement| measurement.is_noisy()).count(), judged().count());
        // A few noisy figures are marked where they stand; the record as a whole is doubtful when they are many.
        if noisy * 4 > judged {
            let (one, many) = if has_ratios { ("ratio", "ratios") } else { ("figure", "figures") };
            warnings.push(format!(
                "{noisy} of {} with a spread above {}: quiet the machine, pin the measuring to a core, measure longer.",
                count(judged, one, many),
                whole_percent(SPREAD_QUOTABLE_MAX)
            ));
        }
        warnings
    }

    /// The machine and what it did meanwhile, as names and facts.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let machine = &self.machine;
        let features = if machine.features.is_empty() { "none".to_owned() } else { machine.features.join(" ") };
        let build = if machine.optimised { "optimised" } else { "not optimised" };
        let mut facts = vec![
            ("Processor", machine.cpu.clone()),
            ("Cores", machine.cores.to_string()),
            ("Instruction sets", features),
            ("System", machine.os.clone()),
            ("Program", format!("ciphermill {}, {build}", machine.ciphermill)),
        ];
        facts.extend(meanwhile(&self.environment));
        if !self.environment.disturbances.is_empty() {
            let told = format!("{}. Absolute times are of this run only.", self.environment.disturbances.join(". "));
            facts.push(("Disturbed by", told));
        }
        facts
    }
}

fn meanwhile(environment: &Environment) -> Vec<(&'static str, String)> {
    let unknown = || "not known on this system".to_owned();
    let clock = match environment.ghz {
        Some([low, high]) if high - low < 0.005 => format!("{low:.2} GHz"),
        Some([low, high]) => format!("{low:.2} to {high:.2} GHz"),
        None => unknown(),
    };
    let timer = format!(
        "steps of {} ns, {} ns a reading",
        figure(environment.timer_resolution_ns),
        figure(environment.timer_cost_ns)
    );
    vec![
        ("Clock rate seen", clock),
        ("Timer", timer),
        ("Taken by the host", environment.steal.map_or_else(unknown, percent)),
        (
            "Pushed off the core",
            environment.preemptions.map_or_else(unknown, |times| count(times as usize, "time", "times")),
        ),
        ("Pinned to core", environment.core.map_or_else(|| "no: free to move".to_owned(), |core| core.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use crate::estimate::Estimate;
    use crate::model::{Better, Section};
    use crate::sample;

    /// A record of two ratios, the second of which has this interval, and of times that spread far.
    fn warnings(interval: [f64; 2]) -> Vec<String> {
        let mut record = sample::record();
        record.environment.warnings.clear();
        record.environment.disturbances = vec!["the core's clock drifted by 10 %".to_owned()];
        let mut section = Section::new("cases", "t", "s");
        section.ratio("a", Estimate { value: 2.0, interval: [1.98, 2.02] }, Better::More);
        section.ratio("b", Estimate { value: 2.0, interval }, Better::More);
        (0..9).for_each(|index| section.measured(format!("time/{index}"), 1.0, "ns", 0.5, Better::Less));
        record.sections = vec![section];
        assert!(record.facts().iter().any(|(name, fact)| *name == "Disturbed by" && fact.contains("drifted")));
        record.warnings()
    }

    #[test]
    fn a_record_is_quotable_when_its_ratios_are() {
        assert_eq!(warnings([1.92, 2.1]), Vec::<String>::new());
        let wide = warnings([1.5, 2.5]);
        assert!(wide.len() == 1 && wide[0].starts_with("1 of 2 ratios"), "{wide:?}");
    }
}

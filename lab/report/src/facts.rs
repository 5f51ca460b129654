//! What every way of showing a record says about its machine.

use crate::model::{Environment, Record, SPREAD_QUOTABLE_MAX};
use crate::words::{count, figure, percent, whole_percent};

impl Record {
    /// What forbids quoting the record, in words, each with what to try; empty when nothing does. Besides what the
    /// environment says, a build without optimisation and a share of noisy figures count.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.environment.warnings.clone();
        if !self.machine.optimised && !warnings.iter().any(|warning| warning.contains("optimis")) {
            let advice =
                "The program was built without optimisation, so its figures mean nothing: build with --release.";
            warnings.push(advice.to_owned());
        }
        let all: usize = self.sections.iter().map(|section| section.measurements.len()).sum();
        let noisy: usize = self.sections.iter().map(|section| section.noisy()).sum();
        // A few noisy figures are marked where they stand; the record as a whole is doubtful when they are many.
        if noisy * 4 > all {
            warnings.push(format!(
                "{noisy} of {} with a spread above {}: quiet the machine, pin the measuring to a core, measure longer.",
                count(all, "figure", "figures"),
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

//! The Prometheus text exposition format, version 0.0.4.

use std::fmt::Write;

use super::snapshot::{Distribution, EngineMetrics, SharedMetrics, Snapshot, SuiteMetrics};

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

impl Snapshot {
    /// The snapshot as text in the Prometheus exposition format, version 0.0.4.
    ///
    /// Counters and summaries carry the labels `engine`, `suite` and `direction`, those of shared batches no `engine`; times are in
    /// seconds where the name does not say otherwise.
    pub fn prometheus(&self) -> String {
        let mut text = Text(String::new());
        self.counters(&mut text);
        self.summaries(&mut text);
        text.head("ciphermill_quarantines_total", "counter", "Quarantines since the engine joined.");
        for engine in self.engines.iter().filter(|engine| engine.present) {
            text.sample("ciphermill_quarantines_total", &[("engine", engine.engine)], engine.quarantines);
        }
        text.head("ciphermill_quarantined", "gauge", "Whether the engine is in quarantine now.");
        for engine in self.engines.iter().filter(|engine| engine.present) {
            text.sample("ciphermill_quarantined", &[("engine", engine.engine)], u8::from(engine.quarantined));
        }
        self.shared_batches(&mut text);
        text.head("ciphermill_queued_batches", "gauge", "Submitted batches that wait to be run.");
        text.sample("ciphermill_queued_batches", &[], self.queued_batches);
        text.head("ciphermill_busy_workers", "gauge", "Threads of the mill that are at work now.");
        text.sample("ciphermill_busy_workers", &[], self.busy_workers);
        text.0
    }

    fn counters(&self, text: &mut Text) {
        type Counter = (&'static str, &'static str, fn(&SuiteMetrics) -> u64);
        const COUNTERS: [Counter; 6] = [
            ("ciphermill_batches_total", "Runs of batches.", |suite| suite.batches),
            ("ciphermill_input_bytes_total", "Bytes of input of the operations run.", |suite| suite.input_bytes),
            (
                "ciphermill_replayed_operations_total",
                "Operations that the engine failed and another ran again.",
                |suite| suite.replayed,
            ),
            ("ciphermill_witnessed_total", "Runs whose answer was compared with another engine's.", |suite| {
                suite.witnessed
            }),
            ("ciphermill_witness_nanoseconds_total", "Time spent on those comparisons.", |suite| suite.witness_ns),
            ("ciphermill_disagreements_total", "Compared runs where the answers differed.", |suite| {
                suite.disagreements
            }),
        ];
        for (name, help, value) in COUNTERS {
            text.head(name, "counter", help);
            for (engine, suite) in self.suites() {
                text.labelled(name, engine, suite, None, value(suite));
            }
        }
        text.head("ciphermill_operations_total", "counter", "Operations by what became of them.");
        for (engine, suite) in self.suites() {
            for (outcome, count) in suite.operations.named() {
                text.labelled("ciphermill_operations_total", engine, suite, Some(("outcome", outcome)), count);
            }
        }
        text.head("ciphermill_routes_total", "counter", "Runs by the router's reason for this engine.");
        for (engine, suite) in self.suites() {
            for (reason, count) in suite.routes.named() {
                text.labelled("ciphermill_routes_total", engine, suite, Some(("reason", reason)), count);
            }
        }
    }

    /// Single operations that shared batches.
    fn shared_batches(&self, text: &mut Text) {
        type Counter = (&'static str, &'static str, fn(&SharedMetrics) -> u64);
        const COUNTERS: [Counter; 5] = [
            ("ciphermill_shared_batches_total", "Batches that single operations shared.", |shared| shared.batches),
            ("ciphermill_shared_operations_total", "Single operations in them.", |shared| shared.operations),
            ("ciphermill_windows_total", "Windows that were opened to wait for more.", |shared| shared.windows),
            ("ciphermill_windows_filled_total", "Windows that ended with a full step.", |shared| shared.filled),
            ("ciphermill_window_nanoseconds_total", "Time that windows were open.", |shared| shared.window_ns),
        ];
        for (name, help, value) in COUNTERS {
            text.head(name, "counter", help);
            for shared in &self.shared {
                let (suite, direction) = (shared.suite.to_string(), shared.direction.to_string());
                text.sample(name, &[("suite", &suite), ("direction", &direction)], value(shared));
            }
        }
    }

    fn summaries(&self, text: &mut Text) {
        type Summary = (&'static str, &'static str, f64, fn(&SuiteMetrics) -> &Distribution);
        const SUMMARIES: [Summary; 2] = [
            ("ciphermill_batch_seconds", "Time of runs; short ones are sampled.", 1e9, |suite| &suite.latency_ns),
            ("ciphermill_prediction_ratio", "Actual by predicted time of runs.", 1e3, |suite| &suite.ratio_thousandths),
        ];
        for (name, help, unit, values) in SUMMARIES {
            text.head(name, "summary", help);
            for (engine, suite) in self.suites() {
                let (suite_name, direction) = (suite.suite.to_string(), suite.direction.to_string());
                let labels = [("engine", engine.engine), ("suite", &suite_name), ("direction", &direction)];
                text.summary(name, &labels, values(suite), unit);
            }
            let name = name.replacen("ciphermill_", "ciphermill_engine_", 1);
            text.head(&name, "summary", &format!("{help} All suites."));
            for engine in &self.engines {
                let mut sum = Distribution::default();
                engine.suites.iter().for_each(|suite| sum.add(values(suite)));
                text.summary(&name, &[("engine", engine.engine)], &sum, unit);
            }
        }
    }

    fn suites(&self) -> impl Iterator<Item = (&EngineMetrics, &SuiteMetrics)> {
        self.engines.iter().flat_map(|engine| engine.suites.iter().map(move |suite| (engine, suite)))
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn labelled(
        &mut self,
        name: &str,
        engine: &EngineMetrics,
        suite: &SuiteMetrics,
        more: Option<(&str, &str)>,
        value: impl std::fmt::Display,
    ) {
        let (suite, direction) = (suite.suite.to_string(), suite.direction.to_string());
        let labels = [("engine", engine.engine), ("suite", &suite), ("direction", &direction)];
        let labels: Vec<(&str, &str)> = labels.into_iter().chain(more).collect();
        self.sample(name, &labels, value);
    }

    /// A summary's quantiles, sum and count; nothing when nothing was seen. Values are divided by `unit`.
    fn summary(&mut self, name: &str, labels: &[(&str, &str)], values: &Distribution, unit: f64) {
        if values.count() == 0 {
            return;
        }
        for quantile in QUANTILES {
            let text = quantile.to_string();
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("quantile", text.as_str())]).collect();
            self.sample(name, &labels, values.quantile(quantile) as f64 / unit);
        }
        self.sample(&format!("{name}_sum"), labels, values.sum() as f64 / unit);
        self.sample(&format!("{name}_count"), labels, values.count());
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

/// A label's value; backslashes, quotes and line ends are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

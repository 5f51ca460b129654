//! What is read from a metrics socket.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ciphermill_channel::Ask;
use serde_json::Value;

use super::gateway::Ways;
use crate::service::{Asked, ClientRow};

/// Bytes of an answer at most.
const ANSWER_LEN_MAX: u64 = 16 << 20;

/// The longest that the program that is watched may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was counted up to one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// By name.
    pub(super) engines: BTreeMap<String, Engine>,
    /// By engine, suite and direction.
    pub(super) suites: BTreeMap<(String, String, String), Counts>,
    pub(super) queued: f64,
    pub(super) busy_workers: f64,
    /// Of a gateway, by their names.
    pub(super) ways: Ways,
    /// Of a service.
    pub(super) service: Option<Service>,
}

/// What a service tells besides.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// Threads that run requests.
    pub(super) workers: u64,
    /// By their numbers, the asking process itself left out.
    pub(super) clients: BTreeMap<u64, ClientRow>,
}

/// One engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    pub(super) counts: Counts,
    pub(super) quarantines: f64,
    pub(super) quarantined: bool,
}

/// Counts of an engine or of a suite on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) batches: f64,
    pub(super) done: f64,
    pub(super) failed: f64,
    pub(super) bytes: f64,
    pub(super) busy_s: f64,
    pub(super) ratio_sum: f64,
    pub(super) ratio_count: f64,
    /// Since the start.
    pub(super) p50_s: Option<f64>,
    pub(super) p99_s: Option<f64>,
}

/// Asks a service for a sample.
///
/// # Errors
/// The service has gone, or what it says is no answer of ours.
pub(super) fn of_service(service: &Asked) -> anyhow::Result<Sample> {
    let metrics = service.ask(&Ask::Metrics)?;
    let clients = service.clients()?;
    let mut sample = parse(&metrics, Instant::now()).context("the service's counters cannot be read")?;
    let status: Value = serde_json::from_str(&service.ask(&Ask::Status)?).context("the service's answer is no JSON")?;
    let workers = status["workers"].as_u64().context("the service does not say how many workers it has")?;
    let own = std::process::id();
    let others = clients.into_iter().filter(|row| u32::try_from(row.pid) != Ok(own));
    sample.service = Some(Service { workers, clients: others.map(|row| (row.id, row)).collect() });
    Ok(sample)
}

/// Reads a sample from the socket.
///
/// # Errors
/// Nobody serves there, or what comes is no answer of ours.
pub(super) fn read(path: &Path) -> anyhow::Result<Sample> {
    let mut stream = UnixStream::connect(path).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::NotFound => "there is no such socket",
            ErrorKind::ConnectionRefused => "the program that served there has ended",
            ErrorKind::PermissionDenied => "it belongs to another user",
            _ => "it cannot be opened",
        };
        let path = path.display();
        anyhow::Error::new(error).context(format!(
            "cannot watch {path}: {what}. A program is watched that was started with --metrics-socket {path}, as in \
             `ciphermill demo --metrics-socket {path}`"
        ))
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let wrong = || format!("{} does not answer as expected", path.display());
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").with_context(wrong)?;
    let mut answer = String::new();
    stream.take(ANSWER_LEN_MAX).read_to_string(&mut answer).with_context(wrong)?;
    let at = Instant::now();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("{}", wrong()) };
    if head.split_ascii_whitespace().nth(1) != Some("200") {
        bail!("{}: {}", wrong(), head.lines().next().unwrap_or_default());
    }
    parse(body, at).with_context(wrong)
}

/// Takes the text apart.
pub(super) fn parse(text: &str, at: Instant) -> anyhow::Result<Sample> {
    let (engines, suites, ways) = (BTreeMap::new(), BTreeMap::new(), Ways::new());
    let mut sample = Sample { at, engines, suites, queued: 0.0, busy_workers: 0.0, ways, service: None };
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, value) = line.rsplit_once(' ').with_context(|| format!("no value in `{line}`"))?;
        let value: f64 = value.parse().with_context(|| format!("no number in `{line}`"))?;
        let (name, labels) = match name.split_once('{') {
            None => (name, Vec::new()),
            Some((name, rest)) => (name, labels(rest).with_context(|| format!("wrong labels in `{line}`"))?),
        };
        let label = |wanted: &str| labels.iter().find(|(name, _)| name == wanted).map(|(_, text)| text.clone());
        let Some(name) = name.strip_prefix("ciphermill_") else { continue };
        if let (Some(name), Some(way)) = (name.strip_prefix("gateway_"), label("way")) {
            sample.ways.entry(way).or_default().take(name, label("reason"), value);
            continue;
        }
        let Some(engine) = label("engine") else {
            match name {
                "queued_batches" => sample.queued = value,
                "busy_workers" => sample.busy_workers = value,
                _ => {}
            }
            continue;
        };
        let detail = label("quantile").or_else(|| label("outcome")).unwrap_or_default();
        let own = sample.engines.entry(engine.clone()).or_default();
        match (name, label("suite"), label("direction")) {
            ("quarantines_total", ..) => own.quarantines = value,
            ("quarantined", ..) => own.quarantined = value != 0.0,
            (_, Some(suite), Some(direction)) => {
                let counts = sample.suites.entry((engine, suite, direction)).or_default();
                counts.take(name, &detail, value);
                own.counts.take_part(name, &detail, value);
            }
            _ => own.counts.take(name.strip_prefix("engine_").unwrap_or(name), &detail, value),
        }
    }
    Ok(sample)
}

impl Counts {
    /// Adds what simply adds up.
    fn take_part(&mut self, name: &str, detail: &str, value: f64) {
        match (name, detail) {
            ("batches_total", _) => self.batches += value,
            ("operations_total", "done") => self.done += value,
            ("operations_total", _) => self.failed += value,
            ("input_bytes_total", _) => self.bytes += value,
            _ => {}
        }
    }

    fn take(&mut self, name: &str, detail: &str, value: f64) {
        match (name, detail) {
            ("batch_seconds", "0.5") => self.p50_s = Some(value),
            ("batch_seconds", "0.99") => self.p99_s = Some(value),
            ("batch_seconds_sum", _) => self.busy_s = value,
            ("prediction_ratio_sum", _) => self.ratio_sum = value,
            ("prediction_ratio_count", _) => self.ratio_count = value,
            _ => self.take_part(name, detail, value),
        }
    }

    /// What was counted since `before`.
    pub(super) fn since(&self, before: &Counts) -> Counts {
        Counts {
            batches: self.batches - before.batches,
            done: self.done - before.done,
            failed: self.failed - before.failed,
            bytes: self.bytes - before.bytes,
            busy_s: self.busy_s - before.busy_s,
            ratio_sum: self.ratio_sum - before.ratio_sum,
            ratio_count: self.ratio_count - before.ratio_count,
            ..*self
        }
    }
}

/// The labels between braces, without the first.
fn labels(mut text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut labels = Vec::new();
    loop {
        let (name, rest) = text.split_once("=\"").context("no label")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().context("no end")? {
                (at, '"') => break at,
                (_, '\\') => match chars.next().context("no end")?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
        match text.strip_prefix(',') {
            Some(more) => text = more,
            None if text == "}" => return Ok(labels),
            None => bail!("no end of labels"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_apart() {
        let text = "# HELP x y\nciphermill_batches_total{engine=\"a\\\"\\\\\\n\",suite=\"s\",direction=\"encrypt\"} 3\n\
            ciphermill_operations_total{engine=\"b\",suite=\"s\",direction=\"encrypt\",outcome=\"done\"} 7\n\
            ciphermill_operations_total{engine=\"b\",suite=\"t\",direction=\"encrypt\",outcome=\"done\"} 2\n\
            ciphermill_engine_batch_seconds{engine=\"b\",quantile=\"0.99\"} 0.25\n\
            ciphermill_quarantined{engine=\"b\"} 1\nciphermill_queued_batches 4\n\
            ciphermill_gateway_packets_total{way=\"in\"} 5\nciphermill_gateway_port_total{side=\"inside\",what=\"sent\"} 5\n";
        let sample = parse(text, Instant::now()).expect("well formed");
        assert_eq!(sample.engines["a\"\\\n"].counts.batches, 3.0);
        let engine = &sample.engines["b"];
        assert_eq!((engine.counts.done, engine.counts.p99_s, engine.quarantined), (9.0, Some(0.25), true));
        assert_eq!((sample.queued, sample.suites.len(), sample.ways.len()), (4.0, 3, 1));
        for wrong in ["ciphermill_x", "ciphermill_x{a} 1", "ciphermill_x{a=\"b} 1", "ciphermill_x one"] {
            assert!(parse(wrong, Instant::now()).is_err(), "{wrong}");
        }
    }
}

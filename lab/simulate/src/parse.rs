//! Scenarios in text: mixes, arrivals, devices and traces, as they stand on a command line.

use ciphermill_contract::suite::UnknownSuite;
use ciphermill_contract::{Direction, EngineKind, Suite};

use crate::SimulationError;
use crate::scenario::{Arrivals, Ask};

/// A work of a mix as text: `SUITE[.decrypt][/BYTES][*OPS][@hsm]:SHARE`.
#[derive(Clone, Debug, PartialEq)]
pub struct MixText {
    /// What was written before the share: the work's name.
    pub name: String,
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// Bytes of input of each operation; `None` for the suite's own length, or 64.
    pub len: Option<u32>,
    /// Operations of a request.
    pub ops: u32,
    /// The devices that alone have the keys.
    pub keys_in: Option<EngineKind>,
    /// The share of requests.
    pub share: f64,
}

/// Devices of one kind as text: `hsm:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceText {
    /// [`EngineKind::Token`] for `hsm`, [`EngineKind::Gpu`] for `gpu`.
    pub kind: EngineKind,
    /// How many.
    pub count: u32,
}

fn form(text: &str, form: &'static str) -> SimulationError {
    SimulationError::Form { text: text.to_owned(), form }
}

const MIX_FORM: &str = "SUITE[.decrypt][/BYTES][*OPS][@hsm]:SHARE, as `aes-256-gcm/64*8:0.5`";

/// Works with their shares, apart by commas.
///
/// # Errors
/// [`SimulationError::Form`], with the part that is wrong.
pub fn parse_mix(text: &str) -> Result<Vec<MixText>, SimulationError> {
    text.split(',').map(parse_work).collect()
}

fn parse_work(text: &str) -> Result<MixText, SimulationError> {
    let wrong = || form(text, MIX_FORM);
    let (name, share) = match text.rsplit_once(':') {
        Some((name, share)) => (name, share.parse().map_err(|_| wrong())?),
        None => (text, 1.0),
    };
    let (rest, keys_in) = match name.split_once('@') {
        Some((rest, "hsm")) => (rest, Some(EngineKind::Token)),
        Some(_) => return Err(wrong()),
        None => (name, None),
    };
    let (rest, ops) = match rest.split_once('*') {
        Some((rest, ops)) => (rest, ops.parse().map_err(|_| wrong())?),
        None => (rest, 1),
    };
    let (rest, len) = match rest.split_once('/') {
        Some((rest, len)) => (rest, Some(len.parse().map_err(|_| wrong())?)),
        None => (rest, None),
    };
    let (suite, direction) = match rest.strip_suffix(".decrypt") {
        Some(suite) => (suite, Direction::Decrypt),
        None => (rest, Direction::Encrypt),
    };
    let unknown = |error: UnknownSuite| crate::rule(text, error.to_string());
    let suite = suite.parse().map_err(unknown)?;
    Ok(MixText { name: name.to_owned(), suite, direction, len, ops, keys_in, share })
}

/// `closed`, `closed:THINK`, `poisson:RATE` or `bursts:RATE:ON:OFF`, with times as `2ms` and rates a second.
///
/// # Errors
/// [`SimulationError::Form`].
pub fn parse_arrivals(text: &str) -> Result<Arrivals, SimulationError> {
    let wrong = || form(text, "closed[:THINK], poisson:RATE, bursts:RATE:ON:OFF or a file, as `bursts:20000:2ms:8ms`");
    let rate = |text: &str| text.parse::<f64>().map_err(|_| wrong());
    let time = |text: &str| parse_ns(text).ok_or_else(wrong);
    let parts: Vec<&str> = text.split(':').collect();
    Ok(match parts[..] {
        ["closed"] => Arrivals::Closed { think_ns: 0.0 },
        ["closed", think] => Arrivals::Closed { think_ns: time(think)? },
        ["poisson", all] => Arrivals::Poisson { rate: rate(all)? },
        ["bursts", all, on, off] => Arrivals::Bursts { rate: rate(all)?, on_ns: time(on)?, off_ns: time(off)? },
        _ => return Err(wrong()),
    })
}

/// A time with its unit, in nanoseconds: `250us`, `2ms`, `1.5s`.
fn parse_ns(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// `gpu:2,hsm:1`: kinds of devices, with how many there are.
///
/// # Errors
/// [`SimulationError::Form`].
pub fn parse_devices(text: &str) -> Result<Vec<DeviceText>, SimulationError> {
    let wrong = || form(text, "devices with their numbers, as `gpu:2,hsm:1`");
    let one = |part: &str| {
        let (name, count) = part.split_once(':').unwrap_or((part, "1"));
        let kind = match name {
            "gpu" => EngineKind::Gpu,
            "hsm" => EngineKind::Token,
            _ => return Err(wrong()),
        };
        Ok(DeviceText { kind, count: count.parse().map_err(|_| wrong())? })
    };
    text.split(',').map(one).collect()
}

/// A trace: lines of `time_us,client,suite,direction,ops,bytes`, with a head of these words or without. `bytes` are those of all operations.
/// Returns works, each once, with what was asked for in the order of times, and how many clients there are.
///
/// # Errors
/// [`SimulationError::Line`].
pub fn parse_trace(text: &str) -> Result<(Vec<MixText>, Vec<Ask>, u32), SimulationError> {
    let (mut works, mut asks, mut clients): (Vec<MixText>, Vec<Ask>, u32) = (Vec::new(), Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || (index == 0 && line.starts_with("time_us")) {
            continue;
        }
        let wrong = |why: String| SimulationError::Line { line: index + 1, why };
        let (at_ns, client, work) = parse_ask(line).map_err(wrong)?;
        let same = |other: &MixText| (other.len, &other.name) == (work.len, &work.name);
        let number = works.iter().position(same).unwrap_or_else(|| {
            works.push(work);
            works.len() - 1
        });
        clients = clients.max(client.saturating_add(1));
        asks.push(Ask { at_ns, client, work: number });
    }
    asks.sort_by_key(|ask| ask.at_ns);
    Ok((works, asks, clients))
}

fn parse_ask(line: &str) -> Result<(u64, u32, MixText), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time_us, client, suite, direction, ops, bytes] = fields[..] else {
        return Err(format!("{} fields; time_us,client,suite,direction,ops,bytes are six", fields.len()));
    };
    let number = |name: &str, text: &str| text.parse::<u32>().map_err(|_| format!("{name}: `{text}` is no number"));
    let time = time_us.parse::<f64>().ok().filter(|time| (0.0..=3.6e9).contains(time));
    let time = time.ok_or_else(|| format!("time_us: `{time_us}` is no time of 0 to 3,600,000,000 µs"))?;
    let suite: Suite = suite.parse().map_err(|error: UnknownSuite| error.to_string())?;
    let direction: Direction = direction.parse().map_err(|_| format!("direction: `{direction}` is none"))?;
    let (client, ops, bytes) = (number("client", client)?, number("ops", ops)?, number("bytes", bytes)?);
    let (len, keys_in, share) = (Some(bytes / ops.max(1)), None, 1.0);
    let name = format!(
        "{suite}{}/{}*{ops}",
        if direction == Direction::Decrypt { ".decrypt" } else { "" },
        bytes / ops.max(1)
    );
    Ok(((time * 1e3) as u64, client, MixText { name, suite, direction, len, ops, keys_in, share }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_parse_or_say_what_is_wrong() {
        let mix = parse_mix("rsa-2048-sign-pkcs1-sha256@hsm:0.5,aes-256-gcm.decrypt/64*8:2").expect("a mix");
        assert_eq!((mix[0].keys_in, mix[0].ops, mix[0].len, mix[0].share), (Some(EngineKind::Token), 1, None, 0.5));
        let aes = &mix[1];
        assert_eq!((aes.direction, aes.ops, aes.len, aes.share), (Direction::Decrypt, 8, Some(64), 2.0));
        assert_eq!(parse_mix("x25519").expect("one")[0].share, 1.0);
        for (text, word) in [
            ("aes-256-gcn:1", "aes-256-gcm"),
            ("aes-256-gcm:x", "SUITE"),
            ("aes-256-gcm@tpm:1", "@hsm"),
            ("aes-256-gcm/x:1", "/BYTES"),
        ] {
            let said = parse_mix(text).expect_err(text).to_string();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn arrivals_parse_or_say_what_is_wrong() {
        assert_eq!(parse_arrivals("closed"), Ok(Arrivals::Closed { think_ns: 0.0 }));
        assert_eq!(parse_arrivals("closed:1.5ms"), Ok(Arrivals::Closed { think_ns: 1.5e6 }));
        assert_eq!(parse_arrivals("poisson:5e4"), Ok(Arrivals::Poisson { rate: 5e4 }));
        let bursts = Arrivals::Bursts { rate: 10.0, on_ns: 250e3, off_ns: 2e9 };
        assert_eq!(parse_arrivals("bursts:10:250us:2s"), Ok(bursts));
        for text in ["", "poisson", "poisson:x", "bursts:1:2:3", "closed:5", "open:3"] {
            assert!(parse_arrivals(text).is_err(), "{text}");
        }
    }

    #[test]
    fn devices_parse_or_say_what_is_wrong() {
        let devices = parse_devices("gpu:2,hsm").expect("devices");
        assert_eq!(devices.iter().map(|device| device.count).collect::<Vec<_>>(), [2, 1]);
        assert!(parse_devices("tpu:1").is_err() && parse_devices("gpu:x").is_err());
    }

    #[test]
    fn traces_parse_or_name_the_line() {
        let text = "time_us,client,suite,direction,ops,bytes\n5.5,1,x25519,encrypt,1,32\n2,0,aes-128-gcm,decrypt,2,128\n7,1,x25519,encrypt,1,32\n";
        let (works, asks, clients) = parse_trace(text).expect("a trace");
        assert_eq!((works.len(), clients), (2, 2));
        assert_eq!(
            asks.iter().map(|ask| (ask.at_ns, ask.client, ask.work)).collect::<Vec<_>>(),
            [(2000, 0, 1), (5500, 1, 0), (7000, 1, 0)]
        );
        assert_eq!((works[1].len, works[1].ops, works[1].name.as_str()), (Some(64), 2, "aes-128-gcm.decrypt/64*2"));
        for (text, word) in [
            ("1,2,x25519,encrypt,1", "line 1: 5 fields"),
            ("\n1,2,x25518,encrypt,1,32", "line 2: `x25518`"),
            ("-1,2,x25519,encrypt,1,32", "time_us"),
            ("1,2,x25519,encrypt,one,32", "ops: `one`"),
        ] {
            let said = parse_trace(text).expect_err(text).to_string();
            assert!(said.contains(word), "{said}");
        }
    }
}

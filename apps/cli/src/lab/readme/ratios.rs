//! The README's table: how fast the lanes engine is beside a peer, from the goals that a record holds.

use std::fmt::Write as _;

use ciphermill_report::{Better, Measurement, Record};

/// Rows at most.
const ROWS_MAX: usize = 13;

/// The cases that the table may show, in its order: figures of the method `cases` by name, in words, and the peer.
const CASES: [(&str, &str, &str); 21] = [
    ("aes-256-siv-column/encrypt", "AES-256-SIV encryption of 40 bytes, one key", "`aes-siv`, built for the processor"),
    ("aes-256-gcm-siv-column/encrypt", "AES-256-GCM-SIV encryption of 40 bytes, one key", "AWS-LC"),
    ("3des-cbc-short/encrypt", "3DES-CBC encryption of 8 to 80 bytes, 64 keys", "ipsec-mb"),
    ("aes-128-cbc-short-encrypt/encrypt", "AES-128-CBC encryption of 8 to 80 bytes, 64 keys", "ipsec-mb"),
    ("aes-128-gcm-short/encrypt", "AES-128-GCM encryption of 16 to 64 bytes, 64 keys", "ipsec-mb"),
    ("hmac-sha256-short/encrypt", "HMAC-SHA-256 of 16 to 64 bytes, 64 keys", "ipsec-mb"),
    ("chacha20-poly1305-short/encrypt", "ChaCha20-Poly1305 encryption of 64 bytes, 10,000 keys", "OpenSSL"),
    ("aes-128-gcm-bulk/encrypt", "AES-128-GCM encryption of 16 KB", "AWS-LC"),
    ("lone-aes-128-gcm/encrypt", "one AES-128-GCM operation alone, 64 bytes", "AWS-LC"),
    // Beside the faster of two peers.
    ("rsa-2048-private/encrypt/crypto-mb", "RSA-2048 signatures", "crypto_mb"),
    ("ed25519-verify/decrypt/crypto-mb", "Ed25519 verification", "crypto_mb"),
    ("ecdsa-p256-sign/encrypt/crypto-mb", "ECDSA P-256 signatures", "crypto_mb"),
    ("ml-kem-768-encapsulate/encrypt", "ML-KEM-768 encapsulation", "AWS-LC"),
    // What takes the places of those that may not be quoted.
    ("aes-128-cbc-hmac-sha1-64/decrypt", "AES-128-CBC decryption with HMAC-SHA-1, 64 bytes", "ipsec-mb"),
    ("3des-cbc-short/decrypt", "3DES-CBC decryption of 8 to 80 bytes, 64 keys", "ipsec-mb"),
    ("3des-cbc-hmac-sha1-64/encrypt", "3DES-CBC encryption with HMAC-SHA-1, 64 bytes", "ipsec-mb"),
    ("3des-cbc-hmac-sha1-64/decrypt", "3DES-CBC decryption with HMAC-SHA-1, 64 bytes", "ipsec-mb"),
    ("3des-cbc-hmac-sha1-1456/encrypt", "3DES-CBC encryption with HMAC-SHA-1, 1,456 bytes", "ipsec-mb"),
    ("chacha20-poly1305-short/decrypt", "ChaCha20-Poly1305 decryption of 64 bytes, 10,000 keys", "OpenSSL"),
    ("lone-des-cbc/encrypt", "one DES-CBC operation alone, 64 bytes", "AWS-LC"),
    ("lone-3des-cbc/encrypt", "one 3DES-CBC operation alone, 64 bytes", "AWS-LC"),
];

/// What a factor is.
const FACTORS: &str = "A factor is the median of the ratios of rounds that were interleaved, rounded down, with the 95 % \
                       interval of that median; the peer is used in the fastest of its ways. Ratios whose interval reaches \
                       farther than 5 % are left out.";

/// What it was in records of the first format.
const FIRST_FORMAT: &str = "A factor is the ratio of two medians whose rounds were interleaved, rounded down; its spread is \
                            the interquartile range. Ratios that spread by more than 5 % are left out.";

/// The table, with what it was measured on.
pub(super) fn table(record: &Record, path: &str) -> String {
    let all = record.sections.iter().filter(|section| section.method == "cases").flat_map(|it| &it.measurements);
    let all: Vec<&Measurement> = all.collect();
    // A peer that was not at its best is named as missing: a factor against it would flatter.
    let missing = |name: &str| {
        let peer = format!("{} on ", name.replace('/', " "));
        let mut missing = record.sections.iter().flat_map(|section| &section.missing);
        missing.any(|missing| missing.what.starts_with(&peer))
    };
    // Records of the first format have no native loops at all.
    let is_fair = |name: &str| !missing(name) && (record.format > 1 || !name.starts_with("aes-256-siv"));
    let cases = CASES.iter().filter(|(name, ..)| is_fair(name));
    let rows: Vec<String> = cases.filter_map(|case| row(case, &all)).take(ROWS_MAX).collect();
    let mut out = String::new();
    if rows.is_empty() {
        out.push_str("The record holds no ratio that may be quoted.\n");
    } else {
        // A record of the first format has spreads where others have intervals.
        let certainty = if record.format == 1 { "spread" } else { "95 % interval" };
        let _ = writeln!(
            out,
            "| operations, on one core | compared with | times as fast | {certainty} |\n|---|---|---:|---:|"
        );
        rows.iter().for_each(|row| out.push_str(row));
    }
    let machine = &record.machine;
    let _ = writeln!(
        out,
        "\nMeasured on {}, {} cores, on {} by `{}`; record: `{path}`. {}",
        machine.cpu,
        machine.cores,
        record.made.get(..10).unwrap_or(&record.made),
        record.command,
        if record.format == 1 { FIRST_FORMAT } else { FACTORS }
    );
    if !(record.warnings().is_empty() && record.environment.disturbances.is_empty()) {
        out.push_str("\nThe machine was noisy: ratios hold, absolute times drift.\n");
    }
    out
}

/// One row; `None` for what was not measured or may not be quoted.
fn row((name, what, peer): &(&str, &str, &str), all: &[&Measurement]) -> Option<String> {
    let measurement = all.iter().find(|measurement| measurement.name == *name)?;
    let is_sound = measurement.unit == "×" && measurement.value > 0.0 && measurement.value.is_finite();
    if !is_sound || measurement.is_noisy() {
        return None;
    }
    // Goals with an upper bound have our time by theirs.
    let is_time = measurement.better == Better::Less;
    let factor = |value: f64| if is_time { value.recip() } else { value };
    let certainty = match measurement.interval {
        Some([low, high]) => {
            let [low, high] = if is_time { [factor(high), factor(low)] } else { [low, high] };
            format!("{low:.2} to {high:.2}")
        }
        None => format!("{:.1} %", 100.0 * measurement.spread),
    };
    Some(format!("| {what} | {peer} | {} | {certainty} |\n", rounded_down(factor(measurement.value))))
}

/// A factor with two decimals, as its interval has; never more than it is.
fn rounded_down(factor: f64) -> String {
    format!("{:.2}", (100.0 * factor).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use ciphermill_report::{Estimate, Section};

    use super::super::tests::record_of;
    use super::*;

    fn record(figures: &[(&str, f64, f64, Better)]) -> Record {
        let mut section = Section::new("cases", "Goals", "");
        figures.iter().for_each(|(name, value, spread, better)| section.measured(*name, *value, "×", *spread, *better));
        record_of(section)
    }

    #[test]
    fn only_quotable_ratios_are_shown_and_none_is_rounded_up() {
        let made = table(
            &record(&[
                ("3des-cbc-short/encrypt", 12.0, 0.06, Better::More),
                ("3des-cbc-short/decrypt", 10.49, 0.046, Better::More),
                ("hmac-sha256-short/encrypt", 1.999, 0.05, Better::More),
                ("lone-3des-cbc/encrypt", 1.07, 0.04, Better::Less),
                ("not-in-the-table", 99.0, 0.0, Better::More),
            ]),
            "lab/records/a.json",
        );
        let rows: Vec<&str> = made.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(
            rows,
            [
                "| HMAC-SHA-256 of 16 to 64 bytes, 64 keys | ipsec-mb | 1.99 | 5.0 % |",
                "| 3DES-CBC decryption of 8 to 80 bytes, 64 keys | ipsec-mb | 10.49 | 4.6 % |",
                "| one 3DES-CBC operation alone, 64 bytes | AWS-LC | 0.93 | 4.0 % |",
            ]
        );
        for words in ["A Processor", "2026-01-31", "`ciphermill lab all --core 1`", "`lab/records/a.json`"] {
            assert!(made.contains(words), "`{words}` is missing in:\n{made}");
        }
        assert!(!made.contains("noisy"), "{made}");
    }

    #[test]
    fn intervals_are_shown_where_a_record_has_them() {
        let mut section = Section::new("cases", "Goals", "");
        let ratio = |value, interval| Estimate { value, interval };
        section.ratio("3des-cbc-short/encrypt", ratio(8.17, [8.1, 8.3]), Better::More);
        section.ratio("lone-des-cbc/encrypt", ratio(0.8, [0.78, 0.82]), Better::Less);
        section.ratio("hmac-sha256-short/encrypt", ratio(1.5, [1.4, 1.6]), Better::More);
        let made = table(&record_of(section), "a.json");
        let rows: Vec<&str> = made.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(
            rows,
            [
                "| operations, on one core | compared with | times as fast | 95 % interval |",
                "| 3DES-CBC encryption of 8 to 80 bytes, 64 keys | ipsec-mb | 8.17 | 8.10 to 8.30 |",
                "| one DES-CBC operation alone, 64 bytes | AWS-LC | 1.25 | 1.22 to 1.28 |",
            ]
        );
        assert!(made.contains("fastest of its ways"), "{made}");
    }

    #[test]
    fn a_peer_that_was_not_at_its_best_is_no_measure() {
        let mut section = Section::new("cases", "Goals", "");
        let ratio = Estimate { value: 31.0, interval: [30.9, 31.1] };
        section.ratio("aes-256-siv-column/encrypt", ratio, Better::More);
        let there = record_of(section.clone());
        assert!(table(&there, "a.json").contains("| 31.00 |"));
        section.lacks("aes-256-siv-column encrypt on rustcrypto", "it was not built for this processor");
        assert!(!table(&record_of(section), "a.json").contains("31.0"));
    }

    #[test]
    fn a_record_without_quotable_ratios_says_so() {
        let mut noisy = record(&[("3des-cbc-short/encrypt", 12.0, 0.5, Better::More)]);
        noisy.environment.warnings.push("the clock drifted".to_owned());
        let made = table(&noisy, "a.json");
        assert!(made.contains("no ratio that may be quoted") && !made.contains('|'), "{made}");
        assert!(made.contains("absolute times drift"), "{made}");
    }
}

//! `lab short`: records, names, verification, and what cannot be measured.

use crate::{Place, json};

const QUICK: [&str; 6] = ["--ops", "200", "--keys", "5", "--time", "1"];

fn short<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    ["lab", "short"].into_iter().chain(QUICK).chain(extra.iter().copied()).collect()
}

#[test]
fn a_record_has_the_documented_form() {
    let place = Place::new();
    let suites = ["--suite", "aes-128-cbc", "--suite", "hmac-sha1", "--suite", "aes-128-cbc+hmac-sha1"];
    let engines =
        ["--engine", "library", "--engine", "reference", "--engine", "openssl", "--engine", "openssl-context"];
    let args = short(&[&suites[..], &engines, &["--json", "-"]].concat());
    let record = json(&place.ok(args));
    assert!(record["machine"]["cpu"].is_string());
    let rows = record["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3 * 2 * 4);
    for row in rows {
        assert_eq!(row["ops"], 200);
        for name in ["suite", "direction", "engine", "kernel"] {
            assert!(row[name].is_string(), "{name} in {row}");
        }
        for name in ["ns_per_op", "mb_per_s", "spread"] {
            assert!(row[name].as_f64().is_some_and(|number| number >= 0.0), "{name} in {row}");
        }
        let bytes = row["bytes"].as_f64().expect("bytes");
        let rate = bytes * 1000.0 / (row["ns_per_op"].as_f64().expect("a number") * 200.0);
        assert!((rate / row["mb_per_s"].as_f64().expect("a number") - 1.0).abs() < 1e-6);
    }
    assert!(
        rows.iter().filter(|row| row["suite"] == "aes-128-cbc").all(|row| row["bytes"].as_u64().unwrap() % 16 == 0)
    );
}

#[test]
fn what_is_not_measured_is_said() {
    let place = Place::new();
    let args = short(&["--suite", "seal-3.0", "--engine", "reference", "--engine", "library"]);
    let said = place.ok(args);
    assert!(said.contains("not measured: seal-3.0 encrypt on library"), "{said}");
    place.fails(1, &["no engine is called `abacus`", "openssl-context"], short(&["--engine", "abacus"]));
    place.fails(1, &["has no kernel `vaes512`"], short(&["--engine", "reference", "--kernel", "vaes512"]));
    place.fails(1, &["not a short symmetric operation"], short(&["--suite", "rsa-2048-sign-pss-sha256"]));
    place.fails(1, &["--keys"], ["lab", "short", "--keys", "0"]);
    place.fails(1, &["--core 4000"], short(&["--core", "4000"]));
}

#[test]
fn every_symmetric_suite_can_be_measured() {
    let place = Place::new();
    let suites = json(&place.ok(["engines", "--json"]));
    let reference = &suites["engines"][2];
    assert_eq!(reference["name"], "reference");
    let public = ["rsa-", "ec", "dh-", "x25519", "ed25519", "ml-", "random"];
    let names: Vec<&str> = reference["suites"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|suite| suite["suite"].as_str())
        .filter(|name| !public.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    let mut args = vec!["lab", "short", "--ops", "20", "--keys", "3", "--time", "1", "--json", "-"];
    for engine in ["reference", "library", "openssl", "openssl-context", "ipsec-mb"] {
        args.extend(["--engine", engine]);
    }
    for name in &names {
        args.extend(["--suite", name]);
    }
    let record = json(&place.ok(args));
    let rows = record["rows"].as_array().expect("rows");
    for name in names {
        assert!(rows.iter().any(|row| row["suite"] == name && row["engine"] == "reference"), "{name}");
    }
}

#[test]
fn principles_are_printed_beside_the_papers_figures() {
    let place = Place::new();
    let quick = ["lab", "principles", "--time", "1", "--len", "64"];
    let said = place.ok([&quick[..], &["--algorithm", "rc4", "--algorithm", "blowfish"]].concat());
    for words in ["Table 1", "Table 2", "219.06", "545.2", "thread parallel M2", "cycles/byte"] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    let widest = said.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(130), "{widest:?}: {said}");

    let record = json(&place.ok([&quick[..], &["--algorithm", "md5", "--json"]].concat()));
    assert!(record["utilisation"]["by"].is_string());
    let variants = record["algorithms"][0]["variants"].as_array().expect("variants");
    assert_eq!(variants.len(), 7);
    for variant in variants {
        for name in ["mbps", "gain", "utilisation", "cycles_per_byte", "instructions_per_round", "accesses_per_round"] {
            assert!(variant[name].as_f64().is_some_and(|number| number > 0.0), "{name} in {variant}");
        }
    }
    assert_eq!(variants[5]["paper"]["mbps"], 171.2);
    assert!(variants[6]["paper"].is_null());
    place.fails(
        1,
        &["`abacus`", "blowfish, khufu, khafre, rc4, seal, md5"],
        [&quick[..], &["--algorithm", "abacus"]].concat(),
    );
    place.fails(
        1,
        &["khufu takes no messages of 12 bytes", "multiple of 8"],
        ["lab", "principles", "--len", "12", "--algorithm", "khufu"],
    );
}

#[test]
fn the_routers_promises_are_measured_one_by_one() {
    let place = Place::new();
    let record = json(&place.ok(["lab", "router", "decide", "tasks", "--time", "1", "--json", "-"]));
    let figures = record["figures"].as_array().expect("figures");
    let values = |name: &str| {
        let of = |figure: &&serde_json::Value| figure["name"].as_str().is_some_and(|own| own.contains(name));
        figures.iter().filter(of).map(|figure| figure["value"].as_f64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!((values("decide").len(), values("64 tasks").len()), (1, 2));
    assert!(figures.iter().all(|figure| figure["value"].as_f64().is_some_and(|value| value > 0.0)));
    let table = place.ok(["lab", "router", "decide", "--time", "1"]);
    assert!(table.contains("three engines"), "{table}");
    place.fails(1, &["`decisions`", "decide, engine, cores"], ["lab", "router", "decisions"]);
}

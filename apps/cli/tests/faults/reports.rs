//! Files that are made of others, or of the program itself: reports, comparisons, a section of a text, manual pages.

use crate::driver::{Place, Scenario, State};

const NAMES: &[&str] = &[
    "record.json",
    "expected",
    "report.html",
    "differences.json",
    "differences.html",
    "text.md",
    "cases.json",
    "pages/*.1",
    "plots/*.svg",
    "expected-plots/*.svg",
    "expected/*.1",
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, prepare, args, state| Scenario { name, prepare, args, names: NAMES, stays: &[], secret: false, state };
    vec![
        scenario("lab show --html", report, SHOW, |place| made(place, "report.html", None)),
        scenario("lab show --html, over a file", report_over, SHOW, |place| made(place, "report.html", Some(BEFORE))),
        Scenario {
            // Each of both is whole, whether the other one can be written or not.
            stays: &["differences.json", "differences.html"],
            ..scenario("lab compare", record, COMPARE, compared)
        },
        // A document and its plots are whole, each by itself.
        Scenario { stays: &["plots/*.svg"], ..scenario("lab readme", text, README, document) },
        scenario("lab cases --list --json", list, LIST, |place| made(place, "cases.json", None)),
        Scenario {
            stays: &["pages/*.1", "expected/*.1"],
            ..scenario("lab man --out", pages, &["lab", "man", "--out", "pages"], all_pages)
        },
    ]
}

const SHOW: &[&str] = &["lab", "show", "record.json", "--html", "report.html"];
const README: &[&str] = &["lab", "readme", "record.json", "--file", "text.md"];
const LIST: &[&str] = &["lab", "cases", "--list", "--json", "cases.json"];
const COMPARE: &[&str] =
    &["lab", "compare", "record.json", "record.json", "--json", "differences.json", "--html", "differences.html"];

/// What a file holds that is written over.
const BEFORE: &[u8] = b"before";

/// A text with a place for a section.
const TEXT: &str = "# A text\n\n<!-- performance: begin -->\n<!-- performance: end -->\n\nIts end.\n";

fn record(place: &Place) {
    place.ok(&[
        "lab",
        "principles",
        "--algorithm",
        "md5",
        "--len",
        "64",
        "--quick",
        "--time",
        "1",
        "--json",
        "record.json",
    ]);
}

/// What the command makes of the record, kept for comparison, and not there yet.
fn expect(place: &Place, args: &[&str], file: &str) {
    place.ok(args);
    std::fs::rename(place.path(file), place.path("expected")).expect("it was made");
}

fn report(place: &Place) {
    record(place);
    expect(place, SHOW, "report.html");
}

fn report_over(place: &Place) {
    report(place);
    std::fs::write(place.path("report.html"), BEFORE).expect("written");
}

fn text(place: &Place) {
    record(place);
    std::fs::write(place.path("text.md"), TEXT).expect("written");
    expect(place, README, "text.md");
    std::fs::create_dir_all(place.path("plots")).expect("made");
    std::fs::rename(place.path("plots"), place.path("expected-plots")).expect("it was there");
    std::fs::write(place.path("text.md"), TEXT).expect("written");
}

fn list(place: &Place) {
    expect(place, LIST, "cases.json");
}

/// The file is as before, or as expected.
fn made(place: &Place, file: &str, before: Option<&[u8]>) -> State {
    let found = place.read(file);
    if found == place.read("expected") {
        State::New
    } else if found.as_deref() == before {
        State::Old
    } else {
        State::Broken(format!("{file} is neither the old one nor the new one"))
    }
}

/// The document, and each plot that is there, are as before or as expected; all of them together are the new state.
fn document(place: &Place) -> State {
    let mut are_all = true;
    for plot in std::fs::read_dir(place.path("expected-plots")).expect("a folder") {
        let name = plot.expect("an entry").file_name().into_string().expect("text");
        match place.read(&format!("plots/{name}")) {
            None => are_all = false,
            found if found == place.read(&format!("expected-plots/{name}")) => {}
            Some(_) => return State::Broken(format!("{name} is cut short")),
        }
    }
    match made(place, "text.md", Some(TEXT.as_bytes())) {
        State::New if !are_all => State::Old,
        state => state,
    }
}

/// Both files are whole, as far as they are there.
fn compared(place: &Place) -> State {
    let (json, html) = (place.read("differences.json"), place.read("differences.html"));
    if json.is_some() && place.tried(&["lab", "show", "differences.json"]).is_err() {
        return State::Broken("differences.json does not open".to_owned());
    }
    if html.as_deref().is_some_and(|html| !html.trim_ascii_end().ends_with(b"</html>")) {
        return State::Broken("differences.html is cut short".to_owned());
    }
    if json.is_some() && html.is_some() { State::New } else { State::Old }
}

fn pages(place: &Place) {
    place.ok(&["lab", "man", "--out", "expected"]);
}

/// Each page that is there is whole.
fn all_pages(place: &Place) -> State {
    let mut are_all = true;
    for page in std::fs::read_dir(place.path("expected")).expect("a folder") {
        let name = page.expect("an entry").file_name().into_string().expect("text");
        let expected = place.read(&format!("expected/{name}"));
        match place.read(&format!("pages/{name}")) {
            None => are_all = false,
            found if found == expected => {}
            Some(_) => return State::Broken(format!("{name} is cut short")),
        }
    }
    if are_all { State::New } else { State::Old }
}

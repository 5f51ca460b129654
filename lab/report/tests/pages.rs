//! Pages and drawings of any record are well formed, whatever stands in its texts and numbers.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_report::{
    Axis, Better, Cell, Crossing, Emphasis, Environment, Look, Machine, Map, MapCell, MapGroup, MapRow, Measurement,
    Missing, Plot, RECORD_FORMAT, Record, Scale, Section, Series, Table, html, svg, terminal, terminal_head,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Any text, with more of the characters that break documents.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => ".{0,20}",
        2 => "[<>&\"'/ \\]!-]{0,12}",
        1 => any::<String>(),
        1 => "\\PC{0,60}",
        1 => Just("</script></style></svg><!--<![CDATA[&lt;\u{0}\u{1b}\u{ffff}\u{202e}".to_owned()),
    ]
}

/// Any number, with more of those that measurements have.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1e9, 2 => any::<f64>(), 1 => prop_oneof![Just(f64::NAN), Just(0.0), Just(-1.0), Just(1e308)]]
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![Just(Scale::Linear), Just(Scale::Log2), Just(Scale::Log10)];
    (text(), scale).prop_map(|(label, scale)| Axis { label, scale })
}

fn plot() -> impl Strategy<Value = Plot> {
    let look = prop_oneof![Just(Look::Measured), Just(Look::Fitted), Just(Look::Cited)];
    let point = (number(), number()).prop_map(|(x, y)| [x, y]);
    let series = (text(), look, vec(point, 0..6)).prop_map(|(name, look, points)| Series { name, look, points });
    let crossing = (number(), text()).prop_map(|(x, label)| Crossing { x, label });
    (text(), text(), axis(), axis(), vec(series, 0..12), vec(crossing, 0..4))
        .prop_map(|(title, caption, x, y, series, crossings)| Plot { title, caption, x, y, series, crossings })
}

fn table() -> impl Strategy<Value = Table> {
    let emphasis =
        prop_oneof![Just(Emphasis::Plain), Just(Emphasis::Good), Just(Emphasis::Bad), Just(Emphasis::Doubtful)];
    let cell = (text(), emphasis).prop_map(|(text, emphasis)| Cell { text, emphasis });
    (text(), vec(text(), 0..5), vec(vec(cell, 0..5), 0..4), text()).prop_map(|(title, heads, rows, note)| {
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut table = Table::new(&title, &heads, 1);
        table.note = note;
        rows.into_iter().for_each(|row| table.row(row));
        table
    })
}

/// A map, whose rows need not be as wide as its heads.
fn map() -> impl Strategy<Value = Map> {
    let group = (text(), vec(text(), 0..4)).prop_map(|(name, columns)| MapGroup { name, columns });
    let cell = (number(), number(), number(), text());
    let cell = cell.prop_map(|(value, low, high, detail)| MapCell { value, interval: [low, high], detail });
    let row = (text(), vec(prop::option::of(cell), 0..6)).prop_map(|(name, cells)| MapRow { name, cells });
    (text(), text(), text(), vec(group, 0..4), vec(row, 0..3)).prop_map(|(title, note, rows_name, groups, rows)| Map {
        title,
        note,
        rows_name,
        groups,
        rows,
    })
}

fn section() -> impl Strategy<Value = Section> {
    let better = prop_oneof![Just(Better::More), Just(Better::Less), Just(Better::Neither)];
    let measurement = (text(), number(), text(), number(), better, prop::option::of((number(), number()))).prop_map(
        |(name, value, unit, spread, better, interval)| {
            let interval = interval.map(|(low, high)| [low, high]);
            Measurement { name, value, unit, spread, better, interval }
        },
    );
    let missing = (text(), text()).prop_map(|(what, why)| Missing { what, why });
    let texts = (text(), text(), text(), vec(text(), 0..3), vec(text(), 0..3));
    let tables = (vec(table(), 0..3), vec(map(), 0..3));
    (texts, vec(plot(), 0..3), tables, vec(measurement, 0..4), vec(missing, 0..2)).prop_map(
        |((method, title, source, lesson, conclusions), plots, (tables, maps), measurements, missing)| Section {
            method,
            title,
            lesson,
            source,
            conclusions,
            plots,
            tables,
            maps,
            measurements,
            missing,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let machine = (text(), any::<usize>(), vec(text(), 0..3), text(), any::<bool>()).prop_map(
        |(cpu, cores, features, os, optimised)| Machine {
            cpu,
            cores,
            features,
            os,
            ciphermill: "0.1.0".to_owned(),
            optimised,
        },
    );
    let environment = (number(), prop::option::of((number(), number())), vec(text(), 0..3)).prop_map(
        |(timer_cost_ns, ghz, warnings)| Environment {
            disturbances: warnings.clone(),
            timer_cost_ns,
            ghz: ghz.map(|(low, high)| [low, high]),
            warnings,
            ..Environment::default()
        },
    );
    (text(), text(), machine, environment, vec(section(), 0..3)).prop_map(
        |(made, command, machine, environment, sections)| Record {
            format: RECORD_FORMAT,
            made,
            command,
            machine,
            environment,
            sections,
        },
    )
}

/// The page as XML: HTML's elements without an end get one.
fn as_xml(page: &str) -> String {
    let page = page.strip_prefix("<!DOCTYPE html>").expect("the page says what it is");
    let (head, body) = page.split_once("</head>").expect("a page has a head");
    let mut closed = String::new();
    for (index, part) in head.split("<meta ").enumerate() {
        if index > 0 {
            closed.push_str("<meta ");
        }
        closed.push_str(&if index > 0 { part.replacen('>', "/>", 1) } else { part.to_owned() });
    }
    format!("{closed}</head>{body}")
}

/// What a document shows of a text: its characters, but those that cannot stand in one.
fn shown(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => character,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(shown).collect()
}

/// Complains about coordinates that are not numbers.
fn check_coordinates(document: &roxmltree::Document<'_>) -> Result<(), TestCaseError> {
    for node in document.descendants() {
        for name in ["d", "x", "y", "cx", "cy", "width", "height"] {
            let value = node.attribute(name).unwrap_or_default();
            prop_assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_page_of_any_record_is_well_formed(record in record()) {
        let page = html(&record);
        let xml = as_xml(&page);
        let document = roxmltree::Document::parse(&xml)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{xml}")))?;
        check_coordinates(&document)?;
        let named = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count();
        prop_assert_eq!(named("script"), 0);
        prop_assert_eq!(named("style"), 1);
        let plots = record.sections.iter().flat_map(|section| &section.plots);
        let drawn: Vec<_> = document.descendants().filter(|node| node.attribute("role") == Some("img")).collect();
        let titles: Vec<&str> = drawn.iter().filter_map(|svg| svg.first_element_child()?.text()).collect();
        let wanted: Vec<String> = plots.clone().map(|plot| shown(&plot.title)).filter(|t| !t.is_empty()).collect();
        prop_assert_eq!(titles, wanted);
        prop_assert_eq!(drawn.len(), plots.count());
        let mut ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), all, "identifiers are unique");
    }

    #[test]
    fn a_drawing_of_any_plot_is_well_formed(plot in plot()) {
        let text = svg(&plot);
        let document = roxmltree::Document::parse(&text)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(document.root_element().tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        check_coordinates(&document)?;
    }

    #[test]
    fn a_terminal_gets_no_orders_from_texts(record in record(), width in 0_usize..200) {
        let mut text = terminal_head(&record, width, false);
        for section in &record.sections {
            text.push_str(&terminal(section, width, false));
            terminal(section, width, true);
        }
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    }
}

#[test]
fn every_text_is_escaped_and_shown_as_it_is() {
    let nasty = "<b>&amp;\"'</b>";
    let mut section = Section::new("m", nasty, nasty);
    section.lesson.push(nasty.to_owned());
    section.conclusions.push(nasty.to_owned());
    section.lacks(nasty, nasty);
    section.measured(nasty, 1.0, nasty, 0.0, Better::More);
    let mut table = Table::new(nasty, &[nasty], 1);
    table.row([nasty.into()]);
    section.tables.push(table);
    let mut map = Map::new(nasty, nasty, vec![MapGroup::new(nasty, vec![nasty.to_owned()])]);
    map.note = nasty.to_owned();
    map.row(nasty, [Some(MapCell { value: 1.0, interval: [1.0, 1.0], detail: nasty.to_owned() })]);
    section.maps.push(map);
    let axis = Axis::new(nasty, Scale::Linear);
    let mut plot = Plot::new(nasty, axis.clone(), axis);
    plot.caption = nasty.to_owned();
    plot.series.push(Series::new(nasty, Look::Measured, vec![[1.0, 2.0]]));
    plot.crossings.push(Crossing { x: 1.0, label: nasty.to_owned() });
    section.plots.push(plot);
    let record = Record {
        format: RECORD_FORMAT,
        made: nasty.to_owned(),
        command: nasty.to_owned(),
        machine: Machine {
            cpu: nasty.to_owned(),
            cores: 1,
            features: vec![nasty.to_owned()],
            os: nasty.to_owned(),
            ciphermill: nasty.to_owned(),
            optimised: true,
        },
        environment: Environment {
            warnings: vec![nasty.to_owned()],
            disturbances: vec![nasty.to_owned()],
            ..Environment::default()
        },
        sections: vec![section],
    };
    let page = html(&record);
    assert!(!page.contains("<b>"), "no text became an element");
    let xml = as_xml(&page);
    let document = roxmltree::Document::parse(&xml).expect("the page is well formed");
    let texts = document.descendants().filter(|node| node.is_text() && node.text().is_some_and(|t| t.contains(nasty)));
    let about = document.descendants().filter_map(|node| node.attribute("title"));
    assert_eq!(about.filter(|title| title.contains(nasty)).count(), 1, "the detail of the map's cell");
    // Machine, system, features, made, command, program; title, source, lesson, conclusion, missing twice; plot, table,
    // map, measurement: each at least once, most in several places.
    assert!(texts.count() >= 36, "{xml}");
}

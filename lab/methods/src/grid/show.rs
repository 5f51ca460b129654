//! How the grid is shown: maps of ratios, who is behind first, and what the router made of it.

use ciphermill_report::{Better, Cell as Text, Estimate, Map, MapCell, MapGroup, MapRow, Section, Table};

use super::cell::Measured;
use super::plan::{Cell, Keys, WorkingSet, size};
use super::routing::{Routed, WRONG};
use crate::shown::{self, distinct, geometric_mean, grouped, interval, ratio_cell, times};

/// A cell whose ratio is below this is behind.
const BEHIND: f64 = 0.97;

/// The mill's own choice may cost this much more than the better engine …
const MILL_MAX: f64 = 1.03;

/// … in batches of so many bytes or more.
const MILL_BYTES_MIN: usize = 1024;

/// Rows of a table of wrong routes or of what the mill costs at most.
const ROWS_MAX: usize = 20;

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A single figure of speed tells of the shape that it was measured with. Between the shapes that somebody chose lie \
     others: messages a little longer than what a kernel holds in registers, batches smaller than its lanes, rows of memory \
     that fall into the same set of a cache. The grid measures a suite in every size and every batch, with few keys, one, and \
     a key for each operation, from the caches and from memory. Each cell has the rate of our fastest engine by that of the \
     fastest peer there: above one we are ahead. Peers run in every way that there is, also as loops that are written for \
     their libraries alone.",
    "What a user gets is the engine that the router takes. So a mill over our engines runs beside them, and what it would \
     choose by its figures alone, without having run anything, is compared with what was measured.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("grid", "Every size and every batch", "", LESSON)
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, measured: &[Measured], routed: &[Routed]) {
    section.conclusions.extend(standing(measured));
    section.conclusions.extend(of_the_mill(measured));
    section.conclusions.extend(routed.iter().map(of_routes));
    section.tables.push(behind(measured));
    section.tables.extend(dear(measured));
    section.tables.extend(routed.iter().filter(|routed| !routed.wrong().is_empty()).map(|all| wrong(measured, all)));
    section.maps.extend(maps(measured));
    for one in measured {
        section.ratio(one.cell.path(), one.ratio, Better::More);
    }
    for (one, mill) in of_mill(measured) {
        section.ratio(format!("mill/{}", one.cell.path()), mill, Better::Less);
    }
    for routed in routed {
        let name = routed.figures.name();
        section.measured(format!("routes/{name}/regret"), routed.mean_regret(), "×", 0.0, Better::Less);
        section.measured(format!("routes/{name}/wrong"), routed.wrong().len() as f64, "cells", 0.0, Better::Less);
        section.measured(format!("routes/{name}/within"), routed.factor(), "×", 0.0, Better::Less);
    }
}

fn is_behind(one: &Measured) -> bool {
    one.ratio.value < BEHIND
}

/// Whether the doubt about the ratio is smaller than its distance from one.
fn is_certain(one: &Measured) -> bool {
    one.ratio.interval[1] < 1.0
}

/// What the mill's choice costs, where it has one and the batch is large enough for it to matter.
fn of_mill(measured: &[Measured]) -> impl Iterator<Item = (&Measured, Estimate)> {
    let large = measured.iter().filter(|one| one.cell.bytes() >= MILL_BYTES_MIN);
    large.filter_map(|one| one.mill.map(|mill| (one, mill)))
}

/// What lies at this share of sorted values.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(((values.len().max(1) - 1) as f64 * share).round() as usize).copied()
}

/// How many cells are behind, and how far ahead the others are.
fn standing(measured: &[Measured]) -> Option<String> {
    let ratios = || measured.iter().map(|one| one.ratio.value);
    let (median, low) = (quantile(ratios(), 0.5)?, quantile(ratios(), 0.05)?);
    let behind = measured.iter().filter(|one| is_behind(one)).count();
    let certain = measured.iter().filter(|one| is_behind(one) && is_certain(one)).count();
    Some(format!(
        "Of {} cells {behind} are behind the fastest peer by more than 3 %, {certain} of them beyond doubt. The median cell has \
         {median:.2} times its rate, the 5th percentile {low:.2} times.",
        grouped(measured.len())
    ))
}

/// What the mill's own choices cost.
fn of_the_mill(measured: &[Measured]) -> Option<String> {
    let costs: Vec<f64> = of_mill(measured).map(|(_, mill)| mill.value).collect();
    let high = quantile(costs.iter().copied(), 0.95)?;
    let dear = costs.iter().filter(|cost| **cost > MILL_MAX).count();
    Some(format!(
        "A mill left to its own choice takes {:.3} times as long as one that is told the better engine (mean over {} cells of \
         {} and more), up to {high:.2} times in 95 % of them; more than 3 % longer in {dear}.",
        geometric_mean(costs.iter().copied()),
        grouped(costs.len()),
        size(MILL_BYTES_MIN)
    ))
}

fn of_routes(routed: &Routed) -> String {
    format!(
        "Routes, {}: in {} cells the engine that is chosen takes {:.3} times as long as the better one (mean), more than 10 % \
         longer in {}; 95 % of the predicted times are within a factor of {:.2}.",
        routed.figures.name(),
        grouped(routed.choices.len()),
        routed.mean_regret(),
        routed.wrong().len(),
        routed.factor()
    )
}

fn name(cell: &Cell) -> String {
    format!("{}, {}", cell.row(), cell.shape())
}

/// Nanoseconds of an operation.
fn per_op(cell: &Cell, ns: f64) -> String {
    shown::digits(ns / cell.ops as f64)
}

/// The cells that are behind, the farthest first.
fn behind(measured: &[Measured]) -> Table {
    let heads = ["cell", "ours", "peer", "ns/op", "peer's", "ratio", "95 %"];
    let mut table = Table::new("Cells that are behind the fastest peer", &heads, 3);
    let mut behind: Vec<&Measured> = measured.iter().filter(|one| is_behind(one)).collect();
    behind.sort_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    table.note = match behind.is_empty() {
        true => "None.".to_owned(),
        false => "By more than 3 %, the farthest first.".to_owned(),
    };
    for one in behind {
        let Some(own) = one.own.first() else { continue };
        table.row([
            name(&one.cell).into(),
            own.engine.clone().into(),
            one.peer.engine.clone().into(),
            per_op(&one.cell, own.ns).into(),
            per_op(&one.cell, one.peer.ns).into(),
            ratio_cell(one.ratio),
            interval(one.ratio).into(),
        ]);
    }
    table
}

/// Where the mill's choice costs more than it may.
fn dear(measured: &[Measured]) -> Option<Table> {
    let mut dear: Vec<(&Measured, Estimate)> = of_mill(measured).filter(|(_, mill)| mill.value > MILL_MAX).collect();
    dear.sort_by(|(_, a), (_, b)| b.value.total_cmp(&a.value));
    let heads = ["cell", "better engine", "costs", "95 %"];
    let mut table = Table::new("Where the mill's own choice costs more than 3 %", &heads, 2);
    table.note = cut(dear.len());
    for (one, mill) in dear.iter().take(ROWS_MAX) {
        let Some(own) = one.own.first() else { continue };
        table.row([name(&one.cell).into(), own.engine.clone().into(), ratio_cell(*mill), interval(*mill).into()]);
    }
    (!dear.is_empty()).then_some(table)
}

/// Where routes are wrong.
fn wrong(measured: &[Measured], routed: &Routed) -> Table {
    let title = format!("Wrong routes, {}", routed.figures.name());
    let mut table = Table::new(&title, &["cell", "chosen", "better", "costs", "predicted by measured"], 3);
    let wrong = routed.wrong();
    table.note = cut(wrong.len());
    for choice in wrong.iter().take(ROWS_MAX) {
        let one = &measured[choice.cell];
        let better = one.own.first().map_or_else(String::new, |own| own.engine.clone());
        let cells: [Text; 5] = [
            name(&one.cell).into(),
            choice.engine.into(),
            better.into(),
            times(choice.regret).into(),
            times(choice.predicted).into(),
        ];
        table.row(cells);
    }
    let percent = (WRONG - 1.0) * 100.0;
    table.note = format!("Choices that cost more than {percent:.0} %. {}", table.note).trim_end().to_owned();
    table
}

/// What is said of rows that are left out.
fn cut(rows: usize) -> String {
    if rows > ROWS_MAX { format!("The worst {ROWS_MAX} of {rows}.") } else { String::new() }
}

/// A map of the plain grid, one of what keys do, and one from memory.
fn maps(measured: &[Measured]) -> Vec<Map> {
    let plain = "The rate of our fastest engine by that of the fastest peer; above one we are ahead. 64 keys, or one for each \
                 operation of a smaller batch; the same batch again and again.";
    let memory = "The same, with batches that take turns and are more than the caches hold. Where our fastest engine does less \
                  than 1 GB/s from the caches, nothing is measured from memory.";
    let set = |set: WorkingSet| move |cell: &Cell| cell.set == set && cell.keys == Keys::Few;
    let other_keys = |cell: &Cell| cell.keys != Keys::Few;
    [
        map("By operations a batch and bytes of each", plain, measured, &set(WorkingSet::Again)),
        map(
            "One key for all, and a key for each operation",
            "The same batches with other keys.",
            measured,
            &other_keys,
        ),
        map("From memory", memory, measured, &set(WorkingSet::Memory)),
    ]
    .into_iter()
    .filter(|map| !map.rows.is_empty())
    .collect()
}

/// What a group of columns has in common.
fn group(cell: &Cell) -> String {
    let operations = if cell.ops == 1 { "1 operation".to_owned() } else { format!("{} operations", grouped(cell.ops)) };
    match cell.keys {
        Keys::Few => operations,
        Keys::One => format!("one key, {operations}"),
        Keys::Distinct => format!("a key each, {operations}"),
    }
}

fn map(title: &str, note: &str, measured: &[Measured], wanted: &dyn Fn(&Cell) -> bool) -> Map {
    let cells: Vec<&Measured> = measured.iter().filter(|one| wanted(&one.cell)).collect();
    let mut columns: Vec<(usize, bool, String, usize)> = Vec::new();
    for one in &cells {
        let column = (one.cell.ops, one.cell.keys == Keys::Distinct, group(&one.cell), one.cell.len);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns.sort_by_key(|(ops, each, _, len)| (*each, *ops, *len));
    let of_group =
        |name: &String| columns.iter().filter(|column| column.2 == *name).map(|column| size(column.3)).collect();
    let groups = distinct(columns.iter().map(|column| column.2.clone()));
    let groups = groups.into_iter().map(|name| MapGroup { columns: of_group(&name), name }).collect();
    let row = |name: String| {
        let own: Vec<&&Measured> = cells.iter().filter(|one| one.cell.row() == name).collect();
        let at = |(ops, _, group_name, len): &(usize, bool, String, usize)| {
            let found =
                own.iter().find(|one| (one.cell.ops, one.cell.len) == (*ops, *len) && group(&one.cell) == *group_name);
            found.map(|one| map_cell(one))
        };
        MapRow { cells: columns.iter().map(at).collect(), name }
    };
    let rows = distinct(cells.iter().map(|one| one.cell.row())).into_iter().map(row).collect();
    Map { title: title.to_owned(), note: note.to_owned(), rows_name: "suite".to_owned(), groups, rows }
}

fn map_cell(one: &Measured) -> MapCell {
    let (cell, peer) = (&one.cell, &one.peer);
    let own = one.own.first().map_or_else(String::new, |own| format!("{} {} ns/op", own.engine, per_op(cell, own.ns)));
    let detail = format!("{own}, {} {} ns/op", peer.engine, per_op(cell, peer.ns));
    MapCell { value: one.ratio.value, interval: one.ratio.interval, detail }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Time;
    use super::super::routing::{Choice, Figures};
    use super::*;
    use crate::engines::suite;
    use ciphermill_contract::Direction;

    fn measured(name: &str, ops: usize, keys: Keys, ratio: f64) -> Measured {
        let cell =
            Cell { suite: suite(name), direction: Direction::Encrypt, ops, len: 1024, keys, set: WorkingSet::Again };
        let time = |engine: &str, ns: f64| Time { engine: engine.to_owned(), ns: ns * ops as f64 };
        let estimate = |value: f64| Estimate { value, interval: [value - 0.02, value + 0.02] };
        Measured {
            cell,
            own: vec![time("lanes", 10.0), time("library", 20.0)],
            peer: time("ipsec-mb", 10.0 * ratio),
            ratio: estimate(ratio),
            mill: Some(estimate(2.0 - ratio)),
        }
    }

    #[test]
    fn losers_stand_first_and_every_cell_is_in_a_map() {
        let cells = [
            measured("aes-128-cbc", 1, Keys::Few, 0.9),
            measured("aes-128-cbc", 64, Keys::Few, 1.5),
            measured("aes-128-cbc", 64, Keys::Distinct, 0.96),
            measured("sha1", 64, Keys::Few, 0.5),
        ];
        let choice = Choice { cell: 1, engine: "library", regret: 2.0, predicted: 0.5 };
        let routed = [Routed { figures: Figures::Estimates, choices: vec![choice] }];
        let mut section = section();
        fill(&mut section, &cells, &routed);
        let conclusions = section.conclusions.join("\n");
        for words in [
            "Of 4 cells 3 are behind the fastest peer by more than 3 %, 3 of them beyond doubt.",
            "(mean over 4 cells of 1 KB and more)",
            "more than 3 % longer in 3.",
            "untuned: in 1 cells the engine that is chosen takes 2.000 times",
            "within a factor of 2.00",
        ] {
            assert!(conclusions.contains(words), "`{words}` is missing in:\n{conclusions}");
        }
        let rows: Vec<&str> = section.tables[0].rows.iter().map(|row| row[0].text.as_str()).collect();
        assert_eq!(
            rows,
            ["sha1, 64 × 1 KB", "aes-128-cbc encrypt, 1 × 1 KB", "aes-128-cbc encrypt, 64 × 1 KB, a key each"]
        );
        assert_eq!(section.tables[2].rows[0][3].text, "2.00 ×");
        let [plain, keys] = section.maps.as_slice() else { panic!("two maps: {:?}", section.maps) };
        assert_eq!(
            plain.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(),
            ["1 operation", "64 operations"]
        );
        let values: Vec<Vec<Option<f64>>> = plain
            .rows
            .iter()
            .map(|row| row.cells.iter().map(|cell| cell.as_ref().map(|cell| cell.value)).collect())
            .collect();
        assert_eq!(values, [vec![Some(0.9), Some(1.5)], vec![None, Some(0.5)]]);
        assert_eq!(
            keys.rows[0].cells[0].as_ref().map(|cell| cell.detail.as_str()),
            Some("lanes 10.0 ns/op, ipsec-mb 9.60 ns/op")
        );
        section.check().expect("sound");
    }
}

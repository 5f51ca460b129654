//! A service's clients, as `top` shows them.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::sample::Service;
use crate::output::{self, short};
use crate::service::ClientRow;

/// What was done for a client; rates over the last interval, `None` when there are no two samples.
#[derive(Serialize)]
pub(super) struct ClientFigures {
    client: u64,
    pid: i32,
    user: String,
    unit: String,
    program: String,
    requests_per_s: Option<f64>,
    pub(super) operations_per_s: Option<f64>,
    mb_per_s: Option<f64>,
    /// The client's part of all workers' time.
    share: Option<f64>,
    keys: u64,
    operations: u64,
}

/// The clients, those first that had most of the workers' time.
pub(super) fn figures(now: &Service, before: Option<&Service>, seconds: Option<f64>) -> Vec<ClientFigures> {
    let mut clients: Vec<ClientFigures> =
        now.clients.values().map(|row| of_client(row, before, seconds, now.workers)).collect();
    // Stable: by number where there are no rates yet.
    clients.sort_by(|a, b| b.share.unwrap_or_default().total_cmp(&a.share.unwrap_or_default()));
    clients
}

fn of_client(row: &ClientRow, before: Option<&Service>, seconds: Option<f64>, workers: u64) -> ClientFigures {
    // One that has come since had nothing before.
    let earlier = before.map(|before| before.clients.get(&row.id));
    let rate = |count: fn(&ClientRow) -> u64| {
        let since = count(row).saturating_sub(earlier?.map_or(0, count));
        Some(since as f64 / seconds?)
    };
    ClientFigures {
        client: row.id,
        pid: row.pid,
        user: row.user(),
        unit: row.unit(),
        program: row.program(),
        requests_per_s: rate(|row| row.requests),
        operations_per_s: rate(|row| row.ops),
        mb_per_s: rate(|row| row.bytes).map(|bytes| bytes / 1e6),
        share: rate(|row| row.busy_ns).map(|ns| ns / 1e9 / workers.max(1) as f64),
        keys: row.keys,
        operations: row.ops,
    }
}

pub(super) fn table(clients: &[ClientFigures]) -> Table {
    let head = [
        "client",
        "pid",
        "requests/s",
        "operations/s",
        "MB/s",
        "workers",
        "keys",
        "operations",
        "user",
        "unit",
        "program",
    ];
    let mut table = output::table(&head, 0);
    for index in head.len() - 3..head.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    let or_dash = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
    for row in clients {
        table.add_row([
            row.client.to_string(),
            row.pid.to_string(),
            or_dash(row.requests_per_s, |value| short(value.round())),
            or_dash(row.operations_per_s, |value| short(value.round())),
            or_dash(row.mb_per_s, |value| format!("{value:.1}")),
            or_dash(row.share, |value| format!("{:.0} %", value * 100.0)),
            row.keys.to_string(),
            short(row.operations as f64),
            row.user.clone(),
            row.unit.clone(),
            row.program.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(clients: &[(u64, u64)]) -> Service {
        let row = |(id, count): &(u64, u64)| {
            let text = format!(
                "{{\"id\": {id}, \"pid\": 1, \"uid\": 0, \"seconds\": 1, \"channels\": 1, \"keys\": 2, \"requests\": {count}, \
                 \"shared\": 0, \"held\": 0, \"ops\": {}, \"bytes\": {}, \"busy_ns\": {}}}",
                count * 10,
                count * 1_000_000,
                count * 10_000_000
            );
            (*id, serde_json::from_str(&text).expect("a client"))
        };
        Service { workers: 2, clients: clients.iter().map(row).collect() }
    }

    #[test]
    fn rates_are_differences_over_time_and_the_busiest_is_first() {
        let (before, now) = (service(&[(1, 100), (2, 0)]), service(&[(1, 110), (2, 100), (3, 40)]));
        let figures = figures(&now, Some(&before), Some(2.0));
        let ids: Vec<u64> = figures.iter().map(|row| row.client).collect();
        assert_eq!(ids, [2, 3, 1]);
        let first = &figures[0];
        assert_eq!(
            (first.requests_per_s, first.operations_per_s, first.mb_per_s),
            (Some(50.0), Some(500.0), Some(50.0))
        );
        // A second of two workers' four.
        assert_eq!(first.share, Some(0.25));
        assert_eq!((figures[1].requests_per_s, figures[2].requests_per_s), (Some(20.0), Some(5.0)));
    }

    #[test]
    fn without_two_samples_there_are_no_rates() {
        let figures = figures(&service(&[(1, 100)]), None, None);
        assert_eq!((figures[0].share, figures[0].operations), (None, 1000));
        assert!(table(&figures).to_string().contains(" - "));
    }
}

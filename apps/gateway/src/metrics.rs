//! What a gateway counts, in Prometheus' text format.

use std::fmt::Write;

use ciphermill_esp::{Counters, Drop};
use ciphermill_packets::{Received, Sent};

use crate::gateway::Status;

/// The text.
pub fn prometheus(status: &Status) -> String {
    let mut text = String::new();
    let ways = [("out", &status.sent), ("in", &status.received)];
    family(&mut text, "packets_total", "Packets that were looked at.", &ways, |counters| counters.packets);
    family(&mut text, "done_total", "Packets that were protected, or opened.", &ways, |counters| counters.done);
    family(&mut text, "bytes_total", "Bytes of these.", &ways, |counters| counters.bytes);
    family(&mut text, "bypassed_total", "Packets that policy let pass.", &ways, |counters| counters.bypassed);
    family(&mut text, "dummies_total", "Dummy packets.", &ways, |counters| counters.dummies);
    family(&mut text, "fragments_total", "Fragments that were made.", &ways, |counters| counters.fragments);
    family(&mut text, "icmp_sent_total", "ICMP errors that were sent.", &ways, |counters| counters.icmp_sent);
    family(&mut text, "icmp_withheld_total", "ICMP errors that were not.", &ways, |counters| counters.icmp_withheld);
    family(&mut text, "icmp_heard_total", "ICMP errors about the path.", &ways, |counters| counters.icmp_heard);
    family(&mut text, "not_esp_total", "IKE messages and keep-alives.", &ways, |counters| counters.not_esp);
    head(&mut text, "dropped_total", "counter", "Packets that were dropped, by the reason.");
    for (way, counters) in ways {
        for reason in Drop::ALL {
            let (name, count) = (reason.name(), counters.dropped(*reason));
            let _ = writeln!(text, "ciphermill_gateway_dropped_total{{way=\"{way}\",reason=\"{name}\"}} {count}");
        }
    }
    head(&mut text, "port_total", "counter", "Packets at the interfaces, by what became of them.");
    for (side, received, sent) in
        [("inside", &status.inside.0, &status.inside.1), ("outside", &status.outside.0, &status.outside.1)]
    {
        for (name, count) in port_rows(received, sent) {
            let _ = writeln!(text, "ciphermill_gateway_port_total{{side=\"{side}\",what=\"{name}\"}} {count}");
        }
    }
    head(&mut text, "associations", "gauge", "Security associations.");
    for (way, count) in [("out", status.associations.0), ("in", status.associations.1)] {
        let _ = writeln!(text, "ciphermill_gateway_associations{{way=\"{way}\"}} {count}");
    }
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP ciphermill_gateway_{name} {help}\n# TYPE ciphermill_gateway_{name} {kind}");
}

fn family(text: &mut String, name: &str, help: &str, ways: &[(&str, &Counters); 2], of: fn(&Counters) -> u64) {
    head(text, name, "counter", help);
    for (way, counters) in ways {
        let _ = writeln!(text, "ciphermill_gateway_{name}{{way=\"{way}\"}} {}", of(counters));
    }
}

fn port_rows(received: &Received, sent: &Sent) -> [(&'static str, u64); 12] {
    [
        ("received", received.packets),
        ("receive_no_room", received.no_room),
        ("receive_truncated", received.truncated),
        ("receive_segmented", received.segmented),
        ("receive_not_ip", received.not_ip),
        ("sent", sent.packets),
        ("send_no_room", sent.no_room),
        ("send_no_neighbour", sent.no_neighbour),
        ("send_no_route", sent.no_route),
        ("send_too_long", sent.too_long),
        ("send_not_ip", sent.not_ip),
        ("send_refused", sent.refused),
    ]
}

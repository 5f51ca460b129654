//! Interfaces as a gateway's sides, in a network namespace.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::net::IpAddr;

use ciphermill_gateway::configuration::Port;
use ciphermill_gateway::ports;
use ciphermill_packets::filter::Filter;
use ciphermill_packets::namespace::{self, Builder, End};

#[test]
fn a_side_is_not_opened_where_the_kernel_passes_on_what_the_gateway_does_not_take() {
    if let Err(error) = namespace::can_have_namespaces() {
        return eprintln!("NOT RUN, no network namespaces can be had: {error}");
    }
    let end = |namespace: &str, last| End::new(namespace, "link0").address(IpAddr::from([10, 9, 0, last]), 24);
    let name = format!("sides{}", std::process::id());
    let builder = Builder::new(&name).expect("a name").namespace("router").namespace("host").forwarding("router");
    let lab = builder.pair(end("router", 1), end("host", 2), 1500).up().expect("namespaces");
    let open = |namespace: &str, kernel_forwards| {
        let interface = Some("link0".to_owned());
        let port = Port { interface, tun: None, pcap_in: None, pcap_out: None, mtu: 1400, kernel_forwards };
        let opened = lab.within(namespace, || ports::open(&port, Filter::Esp, &[]).map(drop));
        opened.expect("runs there").map_err(|error| error.to_string())
    };
    let refused = open("router", false).expect_err("it forwards");
    assert!(
        refused.starts_with("interface link0: ") && refused.contains("net.ipv4.conf.link0.forwarding"),
        "{refused}"
    );
    assert_eq!(open("router", true), Ok(()));
    assert_eq!(open("host", false), Ok(()));
}

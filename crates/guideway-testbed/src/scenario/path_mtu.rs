//! Packets too big for something on the way.

use std::net::IpAddr;
use std::time::Duration;

use guideway_forward::Outcome;
use guideway_wire::{IcmpClass, IpVersion, parse};

use super::web;
use crate::backend::HTTP_PORT;
use crate::bed::{Bed, vips};
use crate::capture::Capture;
use crate::client::http;
use crate::forwarder::Forwarder;
use crate::service::Service;
use crate::topology::Plan;

const LONG: Duration = Duration::from_secs(10);

/// The tunnel takes less than the client's link: the balancer tells the client, from the virtual address, and the upload
/// completes.
pub fn a_large_upload_completes_through_a_narrow_tunnel<F: Forwarder>() {
    let narrow = 1400;
    let plan = Plan { clamp_mss: None, ..Plan::default() };
    let service = Service { tunnel_mtu: Some(narrow), ..web(3) };
    let bed = Bed::<F>::start(&plan, &[service]).unwrap();
    for backend in &bed.network.backends {
        // What is longer is lost in silence here, as by a switch.
        backend.port.set_mtu(narrow.into()).unwrap();
    }
    let client = &bed.network.client;
    for vip in vips(HTTP_PORT) {
        let told = Capture::start(&client.link, move |frame| {
            parse(frame).is_ok_and(|parsed| {
                parsed.icmp == IcmpClass::Error && vip.ip() == IpAddr::from(parsed.key.src)
            })
        })
        .unwrap();
        let bytes = 3_000_000;
        let answer = http::post(&client.namespace, vip, bytes).unwrap();
        assert!(answer.ends_with(&format!(" received {bytes}\n")), "{answer}");
        let message = told.wait_for(LONG, "a message that the packet was too big", |_| true).unwrap();
        let parsed = parse(&message.frame[..]).unwrap();
        let icmp = &message.frame[parsed.l4_offset..];
        let mtu = match parsed.ip {
            IpVersion::V4 => {
                assert_eq!(icmp[..2], [3, 4]);
                u32::from(u16::from_be_bytes([icmp[6], icmp[7]]))
            }
            IpVersion::V6 => {
                assert_eq!(icmp[..2], [2, 0]);
                u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]])
            }
        };
        assert_eq!(mtu, u32::from(narrow) - 20);
    }
    assert!(bed.outcome(Outcome::AnsweredTooBig) >= 2);
}

/// The client's link narrows under a download: the router's message to the virtual address reaches the right backend.
pub fn a_download_goes_on_when_the_clients_path_narrows<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[web(3)]).unwrap();
    let client = &bed.network.client;
    for vip in vips(HTTP_PORT) {
        // Several, so that a message to the wrong backend would leave some of them stalled.
        let bytes = 12 << 20;
        let mut downloads: Vec<_> = (0..4)
            .map(|_| {
                let path = format!("/bytes/{bytes}");
                let mut download = http::begin_get(&client.namespace, vip, &path).unwrap();
                download.read_some(1 << 16).unwrap();
                download
            })
            .collect();
        let errors = Capture::start(&bed.network.router.underlay, move |frame| {
            parse(frame).is_ok_and(|parsed| {
                parsed.icmp == IcmpClass::Error && vip.ip() == IpAddr::from(parsed.key.dst)
            })
        })
        .unwrap();
        client.port.set_mtu(1300).unwrap();
        for download in &mut downloads {
            download.read_some(bytes).unwrap();
        }
        errors.wait_for(LONG, "the router's message", |_| true).unwrap();
        client.port.set_mtu(1500).unwrap();
    }
}

//! What has to hold on the whole way, client to backend and back, on any packet path.
//!
//! Each scenario is a function over the [`Forwarder`](crate::Forwarder) and panics when something does not hold.
//! [`scenarios!`](crate::scenarios) makes tests of all of them.

pub mod balancers;
pub mod draining;
pub mod failing;
pub mod flooding;
pub mod path_mtu;
pub mod serving;
pub mod swapping;
pub mod udp;

use std::num::NonZeroU16;

use guideway_control::controller::spec::Protocol;

use crate::backend::{ECHO_PORT, HTTP_PORT};
use crate::service::Service;

/// Makes a test of every scenario on this packet path, in the module where it stands. A scenario is passed over, with a
/// line that says so, where namespaces may not be made or the packet path may not run.
#[macro_export]
macro_rules! scenarios {
    ($forwarder:ty) => {
        $crate::scenarios! { $forwarder:
            serving::http_reaches_several_backends_and_the_client_keeps_its_address,
            serving::every_tunnel_carries_both_families_over_both,
            serving::the_virtual_addresses_answer_pings,
            serving::curl_sees_several_backends_and_its_own_address,
            serving::nginx_serves_behind_every_tunnel,
            serving::iperf_moves_a_volume_without_a_loss,
            draining::flows_and_downloads_of_a_drained_backend_go_on_and_new_ones_avoid_it,
            draining::swapping_tables_breaks_nothing,
            draining::another_table_size_breaks_nothing,
            draining::draining_under_load_fails_no_request,
            draining::slots_settle_when_the_idle_time_has_passed,
            failing::an_orphan_is_reset_by_the_balancer,
            failing::an_orphan_is_sent_elsewhere_and_reset_there,
            failing::when_all_checks_fail_the_last_resort_serves,
            failing::when_all_checks_fail_clients_are_refused_if_so_set,
            failing::a_dead_backend_is_avoided_and_a_new_one_takes_its_share,
            udp::a_fast_sender_moves_off_a_failing_backend,
            udp::a_pool_that_goes_to_zero_and_back_is_followed_at_once,
            udp::large_datagrams_arrive_in_fragments,
            path_mtu::a_large_upload_completes_through_a_narrow_tunnel,
            path_mtu::a_download_goes_on_when_the_clients_path_narrows,
            balancers::flows_go_on_when_one_of_two_balancers_dies,
            balancers::a_balancer_of_two_arms_forwards_from_one_to_the_other,
            swapping::ten_thousand_swaps_lose_and_misdirect_no_packet,
            flooding::a_flood_moves_no_flow_and_fills_nothing,
            flooding::a_flood_during_a_change_leaves_the_flows_where_they_are,
        }
    };
    ($forwarder:ty: $($group:ident::$scenario:ident,)*) => {
        $(
            #[test]
            fn $scenario() {
                if $crate::privilege::granted_to::<$forwarder>() {
                    $crate::scenario::$group::$scenario::<$forwarder>();
                }
            }
        )*
    };
}

/// A service on HTTP's port, with the first so many backends.
pub fn web(backends: usize) -> Service {
    Service::new("web", port(HTTP_PORT), Protocol::Tcp, backends)
}

/// A service of TCP echo, likewise.
pub fn tcp_echo(backends: usize) -> Service {
    Service::new("tcp-echo", port(ECHO_PORT), Protocol::Tcp, backends)
}

/// A service of UDP echo, likewise.
pub fn udp_echo(backends: usize) -> Service {
    Service::new("udp-echo", port(ECHO_PORT), Protocol::Udp, backends)
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}

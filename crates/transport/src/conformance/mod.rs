//! One set of checks for every [`Platform`]: what the engine relies on, and what must therefore
//! hold for the operating system and in virtual time alike. Where Linux's manual or an RFC states a
//! property, the check names it; otherwise the kernel decides what is right, and a simulated
//! platform follows it.
//!
//! A platform's tests implement [`Bench`] and instantiate all checks, one `#[test]` each, by
//! [`conformance!`](crate::conformance!).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a check fails as a test does: by a panic that says what was expected"
)]

mod ends;

pub mod datagram;
pub mod sharing;
pub mod stream;
pub mod thread;
pub mod waiting;

use crate::{Clock as _, Fault, Platform, Ready, SocketSettings};
use metrics::{Mono, SECOND};
use std::net::{IpAddr, SocketAddr};

/// A platform's clock.
pub(crate) type ClockOf<B> = <<B as Bench>::Platform as Platform>::Clock;
/// A platform's reactor.
pub(crate) type ReactorOf<B> = <<B as Bench>::Platform as Platform>::Reactor;
/// A platform's stream socket.
pub(crate) type StreamOf<B> = <<B as Bench>::Platform as Platform>::Stream;
/// A platform's listening socket.
pub type ListenerOf<B> = <<B as Bench>::Platform as Platform>::Listener;
/// A platform's datagram socket.
pub type UdpOf<B> = <<B as Bench>::Platform as Platform>::Udp;

/// How long a check waits for what must happen, ns.
const PATIENCE: u64 = 20 * SECOND;
/// How long a check waits to see that nothing happens, ns. Too short a time hides a mistake and
/// never reports a wrong one. Longer than the path's round trip in virtual time.
const QUIET: u64 = SECOND / 100;

/// `ECONNREFUSED` of Linux.
const REFUSED: i32 = 111;
/// `ECONNRESET` of Linux.
const RESET: i32 = 104;
/// `EPIPE` of Linux.
const BROKEN_PIPE: i32 = 32;
/// `ENOTCONN` of Linux.
const NOT_CONNECTED: i32 = 107;
/// `EADDRINUSE` of Linux.
const IN_USE: i32 = 98;
/// `EADDRNOTAVAIL` of Linux.
const NOT_AVAILABLE: i32 = 99;
/// `EMSGSIZE` of Linux.
const TOO_LONG: i32 = 90;

/// What the checks run on: a client host and a server host, which may be one, with a path in
/// between that neither loses, reorders nor doubles packets and whose round trip is well below 10
/// ms. The test's own thread is the one that calls.
pub trait Bench {
    /// The platform under test.
    type Platform: Platform;

    /// The platform on the client host.
    fn client(&self) -> Self::Platform;

    /// The platform on the server host.
    fn server(&self) -> Self::Platform;

    /// Addresses of the server host, at least one.
    fn addresses(&self) -> Vec<IpAddr>;

    /// A TCP socket of the server host that listens at `at`, and its address; port 0 lets the
    /// system choose.
    fn listen(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(ListenerOf<Self>, SocketAddr), Fault>;

    /// A UDP socket of the server host that is bound to `at`, and its address; port 0 lets the
    /// system choose.
    fn bind_udp(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(UdpOf<Self>, SocketAddr), Fault>;

    /// Waits as a [`Park::Wait`](crate::Park::Wait) does, on a reactor of either host.
    fn wait(&self, reactor: &mut ReactorOf<Self>, until: Option<Mono>) -> Vec<Ready>;

    /// Why the platform lacks an ability; `None` when it has it.
    fn lacks(&self, ability: Ability) -> Option<String>;

    /// Reports that a check could not run, and why.
    fn skip(&self, reason: &str);
}

/// What some systems cannot do. A platform that lacks an ability says why. A check then expects
/// what follows from the lack, or is reported as skipped where nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Several datagrams in one send, cut apart by the kernel (`UDP_SEGMENT`).
    Segmentation,
    /// Datagrams merged for one receive (`UDP_GRO`).
    Merging,
    /// Receive stamps by the kernel.
    ReceiveStamps,
    /// Transmit stamps by the kernel.
    TransmitStamps,
    /// Receive calls that sleep.
    SleepingReceives,
    /// A panic of a task ends its thread alone.
    Panics,
    /// [`Reactor::rung`](crate::Reactor::rung) tells of wakes alone. Where it also tells that other
    /// threads wait for the caller to pause, the checks accept that.
    ExactRung,
    /// Each change is reported once, unasked. Without it a report takes
    /// [`Watch::rearm`](crate::Watch::rearm), which tells what is the case then.
    Edges,
    /// Several sockets on one port.
    SharedPorts,
}

/// Reports the check as skipped when the platform lacks an ability; whether it does.
fn lacking<B: Bench>(bench: &B, ability: Ability) -> bool {
    let lacks = bench.lacks(ability);
    if let Some(reason) = &lacks {
        bench.skip(reason);
    }
    lacks.is_some()
}

/// Lets pass a time in which everything that is under way arrives.
fn settle<B: Bench>(bench: &B) {
    Watcher::new(bench, &bench.client()).quiet();
}

/// The server's first address, with any port.
fn anywhere<B: Bench>(bench: &B) -> SocketAddr {
    SocketAddr::new(bench.addresses()[0], 0)
}

/// A reactor, and waiting on it.
struct Watcher<'b, B: Bench> {
    bench: &'b B,
    clock: ClockOf<B>,
    reactor: ReactorOf<B>,
}

impl<'b, B: Bench> Watcher<'b, B> {
    fn new(bench: &'b B, platform: &B::Platform) -> Self {
        Watcher { bench, clock: platform.clock(), reactor: platform.reactor().unwrap() }
    }

    fn wait(&mut self, until: Option<Mono>) -> Vec<Ready> {
        self.bench.wait(&mut self.reactor, until)
    }

    /// What is reported next.
    fn next(&mut self) -> Vec<Ready> {
        let deadline = self.clock.now().plus(PATIENCE);
        loop {
            let ready = self.wait(Some(deadline));
            if !ready.is_empty() {
                return ready;
            }
            assert!(self.clock.now() < deadline, "nothing was reported");
        }
    }

    /// The first report that is `enough`; others are passed over.
    fn until(&mut self, enough: impl Fn(&Ready) -> bool) -> Ready {
        let deadline = self.clock.now().plus(PATIENCE);
        loop {
            let ready = self.wait(Some(deadline));
            if let Some(ready) = ready.into_iter().find(&enough) {
                return ready;
            }
            assert!(self.clock.now() < deadline, "what was waited for was not reported");
        }
    }

    /// All that is reported within a time in which everything that is under way arrives.
    fn quiet(&mut self) -> Vec<Ready> {
        let until = self.clock.now().plus(QUIET);
        let mut all = Vec::new();
        while self.clock.now() < until {
            all.extend(self.wait(Some(until)));
        }
        all
    }
}

/// Instantiates all checks as tests of the module in which it is called; the argument is an
/// expression that makes the [`Bench`] for one check.
#[macro_export]
macro_rules! conformance {
    (@ $($group:ident { $($check:ident)* })*) => { $(
        mod $group { $(
            #[test]
            fn $check() {
                $crate::conformance::$group::$check(&super::bench());
            }
        )* }
    )* };
    ($bench:expr) => {
        fn bench() -> impl $crate::conformance::Bench {
            $bench
        }

        $crate::conformance! { @
            waiting {
                a_socket_that_nobody_watches_is_not_reported
                watching_reports_what_the_socket_is_ready_for_already
                a_change_is_reported_once_and_each_one_is
                what_is_left_unread_is_not_reported_again
                an_emptied_socket_is_reported_when_it_is_filled_again
                a_full_socket_is_reported_when_the_peer_has_read
                watching_for_reading_says_nothing_of_writability
                a_listener_watched_by_level_is_reported_until_it_is_empty
                watching_again_changes_the_key_and_reports_anew
                a_forgotten_socket_is_not_reported
                a_closed_socket_is_not_reported
                the_successor_of_a_closed_socket_is_reported
                a_socket_moves_between_reactors
                the_end_of_the_peers_bytes_is_a_hang_up
                a_reset_is_readiness_for_everything
                rearming_is_allowed_at_any_time
                a_past_instant_only_looks
                a_wait_ends_never_before_its_instant
                a_socket_ends_a_wait_without_an_instant
                a_wake_before_a_wait_ends_it_once
                a_wake_during_a_wait_ends_it
                wakes_are_told_once_to_a_thread_that_does_not_wait
                a_wake_is_its_own_reactors
                clocks_agree_and_do_not_go_back
            }
            thread {
                a_mailbox_keeps_the_order_of_each_sender
                a_mailbox_is_closed_when_it_is_empty_and_no_sender_is_left
                a_message_to_nobody_is_lost
                what_was_sent_before_a_wake_is_there_after_the_wait
                no_wake_is_lost
                a_task_is_stepped_until_it_is_done
                a_task_is_resumed_after_each_wait_and_not_otherwise
                a_wake_ends_the_wait_of_a_task
                a_task_serves_sockets
                a_task_that_panics_is_told_by_join
                random_numbers_differ
            }
            stream {
                both_ends_agree_on_the_path
                a_connection_under_way_is_writable_when_it_is_up
                the_local_address_can_be_chosen
                an_address_of_another_host_cannot_be_bound
                a_refused_connection_is_told_once
                a_connection_is_up_before_it_is_accepted
                connections_are_accepted_in_order_of_arrival
                a_connection_that_was_reset_in_the_queue_is_accepted
                a_closed_listener_resets_the_connections_that_wait
                a_taken_port_is_refused
                bytes_arrive_in_order_through_full_sockets
                a_stream_takes_what_fits
                a_receive_is_limited_by_its_budget_and_its_buffer
                skipped_bytes_are_gone
                an_empty_stream_brings_nothing
                the_end_follows_all_bytes_and_is_told_again
                half_a_connection_goes_on_after_the_other_has_ended
                what_was_received_before_a_reset_can_be_read
                a_receive_is_told_of_a_reset_once
                a_send_is_told_of_a_reset_once
                closing_with_unread_bytes_resets
                sending_to_a_closed_peer_breaks_the_pipe
                settings_are_honoured_or_not_told
                a_sleeping_receive_ends_with_bytes_and_without
                times_of_receives_lie_between_their_calls
            }
            datagram {
                datagrams_keep_their_boundaries_and_their_order
                an_empty_socket_brings_nothing
                a_datagram_that_is_longer_than_the_receive_is_cut
                a_skipped_datagram_is_gone
                the_longest_datagram_passes_and_a_longer_one_is_refused
                a_run_arrives_as_single_datagrams
                a_run_is_merged_for_a_receiver_that_asks_for_it
                without_segmentation_a_run_leaves_one_by_one
                each_datagram_is_reported
                a_refusal_is_a_fault_of_the_next_receive_alone
                a_refusal_is_a_fault_of_the_next_send_alone
                a_bound_socket_is_not_told_of_refusals
                a_bound_socket_answers_from_where_it_was_asked
                a_connected_socket_hears_its_peer_alone
                a_taken_port_is_refused
                what_the_receive_buffer_drops_is_counted
                drops_behind_the_last_datagram_are_taken_once
                marks_arrive_or_are_unknown
                receive_stamps_lie_between_sending_and_receiving
                transmit_stamps_come_back_under_their_tags
                a_sleeping_receive_ends_with_a_datagram_and_without
            }
            sharing {
                each_connection_goes_to_one_of_the_listeners
                each_peer_goes_to_one_of_the_sockets
                the_peers_of_a_closed_socket_go_to_the_others
                a_socket_beside_takes_over_its_peer
                what_came_before_the_socket_beside_stays_where_it_is
                a_peer_whose_socket_is_closed_goes_back_to_the_bound_one
                sharing_takes_consent
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The names that follow `before` in a source, up to the first character that no name has.
    fn names<'a>(source: &'a str, before: &str) -> BTreeSet<&'a str> {
        let name = |text: &'a str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        source.split(before).skip(1).filter_map(name).collect()
    }

    #[test]
    fn every_check_is_instantiated() {
        let list = include_str!("mod.rs");
        for (group, source) in [
            ("waiting", include_str!("waiting.rs")),
            ("thread", include_str!("thread.rs")),
            ("stream", include_str!("stream.rs")),
            ("datagram", include_str!("datagram.rs")),
            ("sharing", include_str!("sharing.rs")),
        ] {
            let (_, listed) = list.split_once(&format!("            {group} {{\n")).unwrap();
            let (listed, _) = listed.split_once('}').unwrap();
            let listed: BTreeSet<&str> = listed.split_whitespace().collect();
            assert_eq!(listed, names(source, "\npub fn "), "{group}");
        }
    }
}

//! A requester's tests as trains.

use super::Requester;
use crate::PacketTestRecord;
use common::message::post_event;
use metrics::{Clamped, Departure, Mono, ReceivedPacket, StampKind, TrainReport, join};
use model::{Event, Trains};
use transport::Context;

/// Departures and arrivals of all trains, and the error bound of their times.
#[derive(Default)]
pub(super) struct AllTrains {
    sent: Vec<Departure>,
    got: Vec<ReceivedPacket>,
    bound_ns: u64,
}

impl Requester {
    /// Adds the departures and arrivals of a train.
    pub(super) fn remember(&mut self, cx: &Context<'_>) {
        let (Some(plan), Some(train)) = (&self.params.train, &mut self.train) else { return };
        let first = u64::clamped(self.number) * u64::from(plan.packets);
        let host = |at: Mono| cx.clock.host_signed(at);
        let estimate = self.offset.at(Mono(train.end().since(self.zero))).unwrap_or_default();
        self.all.bound_ns = self.all.bound_ns.max(estimate.bound_ns);
        for (frame, at) in train.log.take().unwrap_or_default() {
            let place = u32::try_from(first + frame).unwrap_or(u32::MAX);
            let row = self
                .test
                .records
                .get(usize::clamped(frame))
                .filter(|row| **row != PacketTestRecord::default());
            if let Some(row) = row {
                let received_ns = host(self.zero).saturating_add(row.received.saturating_mul(100));
                let sequence = u64::clamped(self.all.sent.len());
                self.all.got.push(ReceivedPacket {
                    sequence,
                    received_ns,
                    offset_ns: estimate.offset_ns,
                    stamp: StampKind::User,
                    damaged: false,
                });
            }
            self.all.sent.push(Departure { place, sent_ns: host(at) });
        }
    }

    pub(super) fn report_trains(&mut self, cx: &mut Context<'_>) {
        let (Some(plan), Some(begun)) = (&self.params.train, self.begun) else { return };
        // The order of arrivals is that of their times.
        self.all.got.sort_by_key(|arrival| arrival.received_ns);
        let (packets, strays) =
            join(plan.places(), cx.clock.host_signed(begun), &self.all.sent, &self.all.got);
        let v6 = self.core.is_v6();
        let headers = if v6 { 48 } else { 28 };
        let report = TrainReport::of(&packets, &plan.waits_ns, self.params.asked.size, headers, false);
        let trains =
            Trains { headers, clock_bound_ns: self.all.bound_ns, strays, report, ..Trains::default() };
        post_event(cx, Event::Trains(Box::new(trains)));
        if plan.samples {
            post_event(cx, Event::TrainPackets { rows: packets });
        }
    }
}

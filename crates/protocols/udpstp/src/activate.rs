//! The activation of a client's connection: one request at the port of its test, and the answer
//! with the parameters in force, behind which the test begins.

use crate::codec::{Activation, Keys, Row, Seal, Unsealed, VERSION, activation_code};
use crate::report::{Activated, EndReport, News};
use crate::setup::{ClientPlan, NO_SERVER, SETUP, seconds};
use common::capacity::{Connection, TestFlow};
use common::kernel::Core;
use metrics::{Clamped, Ending, Mono, SECOND};
use std::sync::Arc;
use transport::{
    Checked, Context, End, Fault, Flow, FlowEvent, FlowId, Interest, Path, Patience, Read, Received, Sent,
    Transmit, Violation, When,
};

/// The wait for an answer that proves the server's key.
const NOT_PROVEN: Patience = Patience::of("no answer under the key", 3 * SECOND);

/// A connection in its activation.
pub(crate) struct ActivateFlow {
    core: Core,
    plan: Arc<ClientPlan>,
    slot: u32,
    connection: Connection,
    keys: Option<Keys>,
    path: Option<Path>,
    /// The end of the wait for the answer.
    until: Mono,
    sent: bool,
    refused: Option<Fault>,
    /// The test at the same socket.
    next: Option<Box<TestFlow>>,
    over: Option<Ending>,
}

impl ActivateFlow {
    /// The connection in `slot`, whose set-up was accepted.
    pub(crate) fn new(
        plan: Arc<ClientPlan>,
        slot: u32,
        connection: Connection,
        keys: Option<Keys>,
        until: Mono,
    ) -> Self {
        let core = Core::new(plan.group, slot, 0);
        let (path, refused, next, over) = (None, None, None, None);
        ActivateFlow { core, plan, slot, connection, keys, path, until, sent: false, refused, next, over }
    }

    fn post(&self, cx: &mut Context<'_>, news: News) {
        let report = self.connection.report(cx.clock.wall(cx.now), self.path, news);
        self.plan.reports.post(cx, report);
    }

    fn request(&self, cx: &Context<'_>) -> Vec<u8> {
        let Connection { version, upstream, parameters, .. } = self.connection;
        let key = if self.keys.is_some() { self.plan.settings.key } else { 0 };
        let request = Activation {
            version,
            upstream,
            code: activation_code::NONE,
            parameters,
            row: Row::default(),
            seal: Seal { key, ..Seal::default() },
        };
        let mut bytes = request.encode();
        if let Some(keys) = &self.keys {
            let now_s = u32::clamped(seconds(cx.clock.wall(cx.now)));
            Activation::SEAL.sign(&mut bytes, &keys.client, now_s);
        }
        bytes.get(..Activation::length(version)).unwrap_or_default().to_vec()
    }

    /// The activation fails; the reference's exit code of it.
    fn fail(&mut self, cx: &mut Context<'_>, code: u8, violation: Violation) -> Checked {
        if let Some(path) = self.path {
            // A connection that failed is counted.
            self.core.up(cx, path);
        }
        self.post(cx, News::End(EndReport { code, ..EndReport::default() }));
        self.over = Some(Ending::Stopped);
        Err(violation)
    }

    fn on_answer(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Checked {
        let Some(answer) = Activation::decode(bytes) else { return Ok(()) };
        if answer.version != self.connection.version || answer.code == activation_code::NONE {
            return Ok(());
        }
        let now_s = seconds(cx.clock.wall(cx.now));
        if let Some(keys) = &self.keys {
            let verified = match answer.seal.mode {
                0 if self.connection.version < VERSION => Ok(()),
                _ => Activation::SEAL.verify(bytes, &keys.server, now_s),
            };
            if let Err(why) = verified {
                let code = if why == Unsealed::Digest { 157 } else { 158 };
                return self.fail(cx, code, NOT_PROVEN.violation());
            }
        }
        let report = Activated::new(answer.code, answer.upstream, &answer.parameters);
        self.post(cx, News::ActivationResponse(Box::new(report)));
        if answer.code != activation_code::ACCEPTED {
            let why = Violation::Malformed("the server refused the test's parameters");
            return self.fail(cx, 150_u8.saturating_add(answer.code), why);
        }
        let parameters = answer.parameters.bounded(&self.connection.parameters);
        let connection = Connection { parameters, ..self.connection.clone() };
        let (group, reports) = (self.plan.group, self.plan.reports.clone());
        self.next = Some(Box::new(TestFlow::client(group, self.slot, connection, answer.row, reports)));
        Ok(())
    }
}

impl Flow for ActivateFlow {
    fn interest(&self) -> Interest {
        if self.next.is_some() {
            return Interest::of(End::Replace);
        }
        if let Some(how) = self.over {
            return Interest::done(how);
        }
        if self.path.is_none() {
            return Interest::NONE;
        }
        let read = Read::look(65_535);
        if self.refused.is_some() {
            return Interest { read, wake: Some(Mono(0)), ..Interest::NONE };
        }
        let send = if self.sent { When::Never } else { When::Now };
        Interest { send, read, wake: Some(self.until), end: None }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let bytes = self.request(cx);
        out.copy(&bytes);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.refused = n.fault;
        if n.bytes > 0 {
            self.sent = true;
            self.post(cx, News::ActivationRequest);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        for bytes in got.datagrams() {
            if self.over.is_none() && self.next.is_none() {
                self.on_answer(cx, bytes)?;
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.path = Some(path),
            FlowEvent::Broken(fault) => self.refused = Some(fault),
            FlowEvent::Wake => {
                if let Some(fault) = self.refused.take() {
                    return self.fail(cx, 1, Violation::Refused(fault).likely(NO_SERVER));
                }
                if self.over.is_none() && self.next.is_none() && cx.now >= self.until {
                    return self.fail(cx, 1, SETUP.violation());
                }
            }
            FlowEvent::Stop if self.over.is_none() && self.next.is_none() => {
                self.over = Some(Ending::Stopped);
                self.post(cx, News::End(EndReport::default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        self.next.take().map(|flow| flow as Box<dyn Flow>)
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

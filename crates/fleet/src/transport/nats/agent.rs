//! The agent's end: it takes orders of its own subject, and stays when controllers come and go.

use super::{MAX_WAITING, Server, Tell, flush, runtime, token};
use crate::agent::{Agent, Input, drive};
use crate::message::{self, MAX_ORDER};
use crate::threads::no_thread;
use async_nats::Client;
use futures_util::StreamExt as _;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use tokio::sync::mpsc as queue;

/// Runs an agent behind a NATS server until it is asked to end ([`Input::Gone`]) and its last test is over.
///
/// # Errors
/// One sentence, when the server refuses the agent.
pub fn serve(
    agent: &mut Agent,
    inputs: &(Sender<Input>, Receiver<Input>),
    server: Server,
    name: &str,
    tell: Tell,
) -> Result<(), String> {
    let (reports, waiting) = queue::channel::<String>(MAX_WAITING);
    let (orders, name) = (inputs.0.clone(), token(name));
    let runtime = runtime()?;
    let client = runtime.block_on(server.connect(&format!("netcaliper agent {name}"), true, tell))?;
    let subjects = (server.subject("order", &name), server.subject("report", &name));
    let carrying = thread::Builder::new().name("nats".to_owned()).stack_size(512 << 10).spawn(move || {
        let over = runtime.block_on(carry(&client, subjects, waiting, &orders));
        // The loop may be over.
        let _ = orders.send(Input::Gone(over.err()));
    });
    let carrying = carrying.map_err(no_thread)?;
    let over = drive(agent, &inputs.1, &mut |line| reports.try_send(line).is_ok(), false);
    drop(reports);
    let _ = carrying.join();
    over
}

async fn carry(
    client: &Client,
    (own, report): (String, String),
    mut reports: queue::Receiver<String>,
    inputs: &Sender<Input>,
) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("NATS server: {e}");
    let mut orders = client.subscribe(own).await.map_err(|e| failed(&e))?;
    loop {
        tokio::select! {
            line = reports.recv() => match line {
                Some(line) => client.publish(report.clone(), line.into()).await.map_err(|e| failed(&e))?,
                None => break,
            },
            order = orders.next() => match order {
                // What is no order is a stranger's: subjects are guarded by the server.
                Some(order) if order.payload.len() > MAX_ORDER => {}
                Some(order) => {
                    if let Ok(order) = message::parse(&order.payload)
                        && inputs.send(Input::Order(Box::new(order))).is_err()
                    {
                        break;
                    }
                }
                None => return Err("the NATS server has ended the subscription".to_owned()),
            },
        }
    }
    flush(client).await;
    Ok(())
}

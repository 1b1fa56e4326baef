//! The kernel's counters as texts, for protocols that send them: read on a thread of their own.

use common::host::{Host, HostCard, HostReader, HostTexts, PendingTexts};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Source of host texts, also of the interfaces `cards`. Its thread begins with the first request
/// and ends with the last copy of the handle.
pub(crate) fn host(cards: &[String]) -> Host {
    Host::new(Arc::new(SystemReader { cards: cards.to_vec(), asks: Mutex::default() }))
}

struct SystemReader {
    cards: Vec<String>,
    asks: Mutex<Option<Sender<PendingTexts>>>,
}

fn start(cards: Vec<String>) -> Option<Sender<PendingTexts>> {
    let (asks, asked) = channel::<PendingTexts>();
    let card =
        |name: &String| HostCard { name: name.clone(), counters: io::host::card(name).unwrap_or_default() };
    let answer = move || {
        for reading in asked {
            let io::host::Texts { dev, snmp, snmp6, stat } = io::host::texts();
            // This function alone sets the reading: the request has one answer.
            let cards = cards.iter().map(card).collect();
            let _ = reading.set(HostTexts { dev, snmp, snmp6, stat, cards });
        }
    };
    std::thread::Builder::new().name("texts".to_owned()).spawn(answer).ok().map(|_| asks)
}

impl HostReader for SystemReader {
    fn with_cards(&self, cards: &[String]) -> Option<Host> {
        Some(host(cards))
    }

    fn ask(&self) -> PendingTexts {
        let reading: PendingTexts = Arc::new(OnceLock::new());
        let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        if asks.is_none() {
            *asks = start(self.cards.clone());
        }
        let sent = asks.as_ref().is_some_and(|asks| asks.send(Arc::clone(&reading)).is_ok());
        if !sent {
            // Without a thread the texts stay empty.
            let _ = reading.set(HostTexts::default());
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_answered() {
        let host = host(&[]).with_cards(&["lo".to_owned(), "no-such-card".to_owned()]);
        let readings: Vec<PendingTexts> = (0..3).map(|_| host.ask()).collect();
        for reading in readings {
            let text = reading.wait();
            assert_eq!(text.dev.is_empty(), !cfg!(target_os = "linux"));
            assert_eq!(text.cards.len(), 2);
        }
    }
}

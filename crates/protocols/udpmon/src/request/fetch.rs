//! Blocks that a requester fetches, piece by piece.

use super::{RequestStep, Requester};
use crate::PacketTestRecords;
use crate::blocks;
use crate::codec::{self, Block, Message, Setup};
use metrics::Mono;

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    block: Block,
    length: usize,
    piece: usize,
}

impl Requester {
    /// Lists the blocks to fetch once the sums are known.
    pub(super) fn list(&mut self) {
        let asked = &self.params.asked;
        let mut wanted = vec![Block::Histogram(0)];
        if self.params.train.is_none() {
            wanted.extend([Block::Net, Block::FlowId]);
        }
        if asked.cpu {
            wanted.push(Block::Cpu);
        }
        if asked.histograms {
            wanted.extend((1..if asked.stamps { 5 } else { 3 }).map(Block::Histogram));
        }
        if asked.records != PacketTestRecords::None {
            wanted.push(Block::Records);
        }
        let records = usize::try_from(Setup::of(&self.params.asked).record_bytes).unwrap_or(0);
        let records_piece = match asked.records {
            PacketTestRecords::Lost { .. } => codec::LOST_PIECE,
            _ => codec::RECORDS_PIECE,
        };
        let one = |block| {
            let (length, piece) = match block {
                Block::Histogram(_) => (blocks::HISTOGRAM, codec::PIECE),
                Block::Records => (records, records_piece),
                Block::Net => (blocks::NET, codec::PIECE),
                Block::Cpu => (blocks::CPU, codec::PIECE),
                Block::FlowId => (blocks::CARD, codec::PIECE),
            };
            Wanted { block, length, piece }
        };
        self.wanted = wanted.into_iter().map(one).collect();
    }

    /// Asks for the next piece, or goes on behind the last.
    pub(super) fn fetch(&mut self, now: Mono, at: usize, have: usize) {
        let Some(wanted) = self.wanted.get(at) else {
            if self.params.asked.records == PacketTestRecords::None {
                return self.release();
            }
            return self.begin_exchanges(now, true);
        };
        let index = if wanted.block == Block::Records { have / 8 } else { have };
        let length = wanted.piece.min(wanted.length - have);
        let ask = Message::Fetch { block: wanted.block, index: index as i32, length: length as i32 };
        self.step = RequestStep::Fetch(at, have);
        self.talk.ask(codec::encode(&ask, codec::PARAM));
    }

    pub(super) fn piece(&mut self, now: Mono, at: usize, have: usize, bytes: &[u8]) {
        let Some(wanted) = self.wanted.get(at).copied() else { return };
        let expected = wanted.piece.min(wanted.length - have);
        if bytes.len() != expected {
            return;
        }
        self.talk.on_answer(now);
        self.block.extend_from_slice(bytes);
        if have + expected < wanted.length {
            return self.fetch(now, at, have + expected);
        }
        let block = std::mem::take(&mut self.block);
        self.keep(wanted.block, &block);
        self.fetch(now, at + 1, 0);
    }

    pub(super) fn keep(&mut self, block: Block, bytes: &[u8]) {
        let test = &mut self.test;
        match block {
            Block::Histogram(0) => test.gaps = blocks::decode_histogram(bytes),
            Block::Histogram(_) => test.others.extend(blocks::decode_histogram(bytes)),
            Block::Net | Block::Cpu | Block::FlowId => test.remote.keep(block, bytes, self.core.is_v6()),
            Block::Records => match self.params.asked.records {
                PacketTestRecords::Lost { .. } => test.lost = blocks::decode_lost(bytes),
                _ => test.records = blocks::decode_records(bytes),
            },
        }
    }
}

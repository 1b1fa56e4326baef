//! One datagram there and one back: is there a server on the UDP port, and how far is it?
//!
//! Both are a [`Preamble`] (80 bytes): the answer is never larger than the question, and carries
//! its identifier.

use super::preamble::{PREAMBLE, Preamble, Purpose};
use uuid::Uuid;

/// The question; the answer returns `id`.
pub fn hello(id: Uuid) -> [u8; PREAMBLE] {
    Preamble { id, ..Preamble::new(Purpose::Hello) }.encode()
}

/// The answer to `datagram`, if it is a question.
pub fn answer_hello(datagram: &[u8]) -> Option<[u8; PREAMBLE]> {
    let question = Preamble::decode(datagram).filter(|p| p.purpose == Purpose::Hello)?;
    Some(Preamble { id: question.id, ..Preamble::new(Purpose::Answer) }.encode())
}

/// True if `datagram` answers the question with this identifier.
pub fn is_answer(datagram: &[u8], id: Uuid) -> bool {
    Preamble::decode(datagram).is_some_and(|p| p.purpose == Purpose::Answer && p.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_one_answer() {
        let id = Uuid::from_u128(9);
        let answer = answer_hello(&hello(id)).unwrap();
        assert!(is_answer(&answer, id));
        assert!(!is_answer(&answer, Uuid::from_u128(8)));
        assert!(!is_answer(&hello(id), id), "a question is no answer");
        assert_eq!(
            answer_hello(&answer),
            None,
            "an answer is not answered: two servers cannot be made to talk"
        );
        assert_eq!(answer_hello(&hello(id)[..63]), None);
        assert_eq!(answer_hello(&[0; 64]), None);
    }
}

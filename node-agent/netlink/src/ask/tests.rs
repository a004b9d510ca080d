//! Tests of `ask`: answers as a kernel gives them, and as none should.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use super::*;
use crate::{kernel::Received, wire::REQUEST};

type Answer = (Vec<u8>, bool);

/// Answers by a script; nothing more is a timeout.
struct Script {
    answers: VecDeque<Answer>,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Channel for Script {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.asked.lock().unwrap().push(bytes.to_vec());
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _: Duration) -> io::Result<Received> {
        let (bytes, from_kernel) = self.answers.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let copied = bytes.len().min(buffer.len());
        buffer[..copied].copy_from_slice(&bytes[..copied]);
        Ok(Received { length: bytes.len(), from_kernel })
    }
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    Builder::message(kind, flags, body).finish(sequence)
}

fn code(kind: u16, flags: u16, sequence: u32, code: i32) -> Vec<u8> {
    message(kind, flags, sequence, &code.to_ne_bytes())
}

fn ask(answers: Vec<Answer>) -> Result<Vec<Part>, NetlinkError> {
    let script = Script { answers: answers.into(), asked: Arc::default() };
    Session::over(Box::new(script)).ask("q", Builder::message(78, REQUEST | ACK, &[0; 4]))
}

fn list(answers: Vec<Answer>) -> Result<Vec<Part>, NetlinkError> {
    let script = Script { answers: answers.into(), asked: Arc::default() };
    Session::over(Box::new(script)).list("q", &Builder::message(18, REQUEST | DUMP, &[0; 4]))
}

#[test]
fn an_answer_and_its_acknowledgement() {
    let part = |byte: u8| Part { kind: 78, body: vec![byte; 4] };
    let answer = message(78, 0, 1, &[1; 4]);
    let two = [answer.clone(), code(ERROR, CAPPED_ACK, 1, 0)].concat();
    assert_eq!(ask(vec![(two, true)]).unwrap(), [part(1)]);
    let apart = vec![(answer.clone(), true), (code(ERROR, 0, 1, 0), true)];
    assert_eq!(ask(apart).unwrap(), [part(1)]);
    // Another process's words, those to an earlier question, and an event.
    let strange = vec![
        (code(ERROR, 0, 1, -1), false),
        (code(ERROR, 0, 9, -1), true),
        (message(16, 0, 0, &[0; 16]), true),
        (code(ERROR, 0, 1, 0), true),
    ];
    assert_eq!(ask(strange).unwrap(), []);
}

const CAPPED_ACK: u16 = crate::wire::CAPPED;

#[test]
fn refusals_silence_and_nonsense_have_names() {
    let error = ask(vec![(code(ERROR, 0, 1, -95), true)]).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    let error = ask(vec![]).unwrap_err();
    assert!(matches!(error, NetlinkError::Silent { .. }), "{error}");
    let error = ask(vec![(vec![7; 21], true)]).unwrap_err();
    assert!(matches!(error, NetlinkError::Unreadable { .. }), "{error}");
    for kind in [ERROR, DONE] {
        let error = ask(vec![(message(kind, 0, 1, &[]), true)]).unwrap_err();
        assert!(matches!(error, NetlinkError::Unreadable { .. }), "without its code: {error}");
    }
    let error = ask(vec![(vec![0; DATAGRAM + 1], true)]).unwrap_err();
    assert!(matches!(error, NetlinkError::TooLong { length, .. } if length == DATAGRAM + 1), "{error}");
    let strays = vec![(code(ERROR, 0, 8, 0), true); DATAGRAMS_MOST + 1];
    let error = ask(strays).unwrap_err();
    assert!(matches!(error, NetlinkError::Endless { .. }), "{error}");
    let error = ask(vec![(code(ERROR, 0, 1, i32::MIN), true)]).unwrap_err();
    assert_eq!(error.errno(), Some(Errno(i32::MAX)));
}

#[test]
fn listings_end_are_asked_again_and_given_up() {
    let part = |sequence, flags| (message(16, MULTI | flags, sequence, &[sequence as u8; 4]), true);
    let whole = list(vec![part(1, 0), part(1, 0), (code(DONE, MULTI, 1, 0), true)]).unwrap();
    assert_eq!(whole.len(), 2);
    let changed = vec![
        part(1, INTERRUPTED),
        (code(DONE, MULTI, 1, 0), true),
        part(2, 0),
        (code(DONE, MULTI, 2, 0), true),
    ];
    assert_eq!(list(changed).unwrap(), [Part { kind: 16, body: vec![2; 4] }]);
    let always = (1..=ATTEMPTS).map(|n| (code(DONE, MULTI | INTERRUPTED, n, 0), true)).collect();
    assert!(matches!(list(always).unwrap_err(), NetlinkError::Restless { times: ATTEMPTS, .. }));
    let failed = list(vec![part(1, 0), (code(DONE, MULTI, 1, -90), true)]).unwrap_err();
    assert_eq!(failed.errno(), Some(Errno::MSGSIZE));
}

//! Codes of what can be wrong with a NIC or its rail.

code! {
    /// What is wrong with a NIC or its rail, as its agent tells it.
    NicConditionCode {
        /// The link is down.
        LinkDown = "LinkDown",
        /// The device is not there.
        Gone = "Gone",
        /// Its counters cannot be read: nothing is known.
        Unreadable = "Unreadable",
        /// The link went down and came back.
        Flapping = "Flapping",
        /// Pauses that do not end.
        Storm = "Storm",
        /// A job's bytes are outside its priority.
        WrongPriority = "WrongPriority",
        /// It carries less than its peers under the same load.
        Slow = "Slow",
        /// Its cable leads to another rail.
        Swapped = "Swapped",
        /// It loses packets.
        Lossy = "Lossy",
        /// What comes in is damaged.
        Corrupt = "Corrupt",
        /// It drops packets.
        Dropping = "Dropping",
        /// The host holds it up.
        HostStalled = "HostStalled",
        /// Receivers post too slowly.
        NotReady = "NotReady",
        /// Queue pairs gave up.
        QpDied = "QpDied",
        /// Congestion is marked, but nobody slows down.
        RateControlOff = "RateControlOff",
        /// Its class of service is not as its profile says.
        ClassOfService = "ClassOfService",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_from_their_texts_and_others_are_kept() {
        for code in NicConditionCode::ALL {
            assert_eq!(&NicConditionCode::from_text(code.as_str()), code);
        }
        let newer = NicConditionCode::from_text("Meteor");
        assert!(matches!(newer, NicConditionCode::Other(_)));
        assert_eq!(newer.to_string(), "Meteor");
    }
}

//! Codes of findings: what programs read in place of a sentence.

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $text:literal,)+) => {
        /// What kind of thing was found in a text. Variants are in the order of their texts, which are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingCode {
            $($(#[doc = $meaning])+ $code,)+
        }

        impl FindingCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// The code as programs read it: UpperCamelCase, stable.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)+
                }
            }
        }
    };
}

codes! {
    /// Columns of a list of cables say nothing that is used; name them as `railctl fabric import --help` says, or leave them.
    ColumnNotUsed = "ColumnNotUsed",
    /// Two rows are of one port of a switch, and nothing says which is right; both are left out. Mend the list.
    DuplicatePort = "DuplicatePort",
    /// A row says what an earlier one says; it is left out.
    DuplicateRow = "DuplicateRow",
    /// A column that is used is empty in some rows, which say what it would say in another way or not at all.
    EmptyField = "EmptyField",
    /// A row has more or fewer fields than the header; it is left out. Quote fields that have a comma in them.
    FieldCount = "FieldCount",
    /// Rows name different pods for one leaf. Mend the list.
    LeafPod = "LeafPod",
    /// Rows lead to one leaf from different rails. Mend the list, or the cabling.
    LeafRail = "LeafRail",
    /// Names of servers are taken in lower case.
    LowerCase = "LowerCase",
    /// A row of a list of cables, or a neighbour, lacks a field.
    Missing = "Missing",
    /// A NIC is named otherwise than its rail is on other servers.
    NicName = "NicName",
    /// Two rows are of one NIC, and nothing says which is right; both are left out. A NIC with two ports needs a column `plane`.
    NicTwice = "NicTwice",
    /// Two NICs of a server are on one rail.
    NicsOnOneRail = "NicsOnOneRail",
    /// A server is named as no node can be called; the row is left out.
    NodeName = "NodeName",
    /// A field must be a number and is none.
    Number = "Number",
    /// A server has cables into several pods. Mend the list, or the cabling.
    OtherPod = "OtherPod",
    /// A server has cables on some rails only.
    PartialRails = "PartialRails",
    /// A port of a switch is named as one of another kind of link than its speed.
    PortKind = "PortKind",
    /// The order of ports on a switch is not that of the servers: cables may be exchanged.
    PortOrder = "PortOrder",
    /// The list does not say rails: they follow from the order of NICs, or of leaves.
    RailsByOrder = "RailsByOrder",
    /// A NIC hears several neighbours: is there a bridge between?
    SeveralNeighbors = "SeveralNeighbors",
    /// A leaf has far fewer cables than others: its name may be misspelt.
    SmallLeaf = "SmallLeaf",
    /// A speed is none that links have; write for example 400G.
    Speed = "Speed",
    /// A server is written in several ways, which are taken to be one.
    Spellings = "Spellings",
    /// A name has characters that cannot be printed, or is too long.
    Text = "Text",
    /// A row names two ports of one end.
    TwoPorts = "TwoPorts",
}

impl std::fmt::Display for FindingCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_sort_as_their_texts_do() {
        let texts: Vec<&str> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
        assert!(texts.is_sorted() && FindingCode::ALL.is_sorted());
        assert_eq!(texts.len(), 25);
    }
}

//! The counters of a backend host: each packet belongs to exactly one.

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The host receives what was inside.
    Inner,
    /// The host receives it as it came.
    Pass,
    /// It ends here.
    Drop,
}

macro_rules! end_outcomes {
    ($(#[doc = $doc:literal] $name:ident = $label:literal,)*) => {
        /// What a decapsulator did with a packet, and why.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum EndOutcome { $(#[doc = $doc] $name,)* }

        impl EndOutcome {
            /// All of them, in the order of their counters.
            pub const ALL: &'static [EndOutcome] = &[$(EndOutcome::$name,)*];

            /// A stable name for metrics and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(EndOutcome::$name => $label,)* }
            }

            /// What it means, in one sentence: the text of its documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(EndOutcome::$name => $doc.trim_ascii(),)* }
            }
        }
    };
}

end_outcomes! {
    /// The outer headers were taken off.
    Decapsulated = "decapsulated",
    /// Passed: not a tunnel's packet.
    NotTunnelled = "pass_not_tunnelled",
    /// Passed: the tunnel does not end at an address of this host.
    NotOwn = "pass_not_own",
    /// Passed: the tunnel comes from none of the known sources.
    UnknownSource = "pass_unknown_source",
    /// Passed: what is inside is for none of the virtual addresses.
    NotVirtual = "pass_not_virtual",
    /// Passed: a tunnel that this host does not take.
    OtherTunnel = "pass_other_tunnel",
    /// Passed: no well-formed IP packet.
    Malformed = "pass_malformed",
    /// Passed: the outer packet is a fragment. The MTU between balancer and backend is too small.
    Fragmented = "pass_fragmented",
    /// Passed: the checksum of the outer IPv4 header is wrong.
    OuterChecksum = "pass_outer_checksum",
    /// Passed: GRE with a checksum or unknown flags.
    GreFlags = "pass_gre_flags",
    /// Passed: GRE with neither IPv4 nor IPv6 inside.
    GreProtocol = "pass_gre_protocol",
    /// Passed: a GUE control message.
    GueControl = "pass_gue_control",
    /// Passed: GUE of an unknown variant, or with neither IPv4 nor IPv6 inside.
    GueProtocol = "pass_gue_protocol",
    /// Passed: GUE with flags.
    GueFlags = "pass_gue_flags",
    /// Passed: the packet ends within its tunnel header or its inner IP header.
    Truncated = "pass_truncated",
    /// Passed: the inner packet is not of the version that was announced.
    InnerVersion = "pass_inner_version",
    /// Passed: the length of the inner packet does not match that of the outer one.
    InnerLength = "pass_inner_length",
    /// Dropped: congestion on the way, and the inner packet cannot say so (RFC 6040 section 4.2).
    EcnViolation = "drop_ecn_violation",
    /// Dropped: the kernel did not let the outer headers be taken off.
    Immovable = "drop_immovable",
}

impl EndOutcome {
    /// How many there are.
    pub const COUNT: usize = EndOutcome::ALL.len();

    /// The index of the counter.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self as u32
    }

    /// What becomes of the packet.
    #[inline(always)]
    pub const fn fate(self) -> Fate {
        match self {
            EndOutcome::Decapsulated => Fate::Inner,
            EndOutcome::EcnViolation | EndOutcome::Immovable => Fate::Drop,
            _ => Fate::Pass,
        }
    }
}

/// What was done about the segment size in a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Clamped {
    /// Nothing: it is no SYN of a virtual address.
    Untouched,
    /// A SYN of a virtual address that announces no more than fits.
    Fitting,
    /// Lowered.
    Lowered,
}

impl Clamped {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The index of the counter.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self as u32
    }
}

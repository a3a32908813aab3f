//! The closed lists of words of a resolved loop, as enums.
//!
//! Which words the loop file knows at all, later ones included, stands in `table`.

use serde::{Serialize, Serializer};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$case_doc])* $case,)+ }

        impl $name {
            /// Returns the word as it stands in the loop file.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$case => $word,)+ }
            }

            /// Reads the word of the loop file.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$case),)+ _ => None }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }
    };
}

words! {
    /// What a loop works through.
    Mode {
        /// Until the check passes.
        CheckFixpoint = "check_fixpoint",
    }
}
words! {
    /// How exactly the answering model must be the one that was asked for.
    Pin {
        /// The very id.
        Exact = "exact",
        /// The same family.
        Family = "family",
        /// Not at all.
        Off = "off",
    }
}
words! {
    /// Where usage comes from.
    Metering {
        /// Nothing measures it: the command writes no usage.
        None = "none",
        /// The usage file that the command writes.
        File = "file",
        /// `auto` found no source of usage in this release.
        Unknown = "unknown",
    }
}
words! {
    /// Which agent program exec starts.
    Adapter {
        /// Found by looking; in this release that is none.
        Auto = "auto",
        /// None.
        None = "none",
    }
}
words! {
    /// Whether a comment is kept.
    Comment {
        /// One, updated in place.
        Sticky = "sticky",
        /// None.
        Off = "off",
    }
}
words! {
    /// Which further runs of a red baseline may tell why it is red.
    Diagnose {
        /// Those that stay in the zone, where there is one.
        On = "on",
        /// None.
        Off = "off",
        /// Also one outside of the zone.
        Outside = "outside",
    }
}
words! {
    /// What the run works on.
    WorkspaceMode {
        /// A detached copy.
        Detached = "detached",
        /// The caller's own tree.
        InPlace = "in_place",
    }
}
words! {
    /// What uncommitted changes do.
    OnDirty {
        /// They are part of t0.
        Include = "include",
        /// They refuse the run.
        Refuse = "refuse",
    }
}
words! {
    /// How a converged result reaches the caller.
    Deliver {
        /// Into the caller's tree.
        Apply = "apply",
        /// As a branch.
        Branch = "branch",
        /// As a patch file.
        Patch = "patch",
        /// Not at all.
        None = "none",
    }
}
words! {
    /// What a regression does.
    OnRegression {
        /// The next iteration starts from the accepted snapshot.
        Revert = "revert",
        /// The run halts.
        Halt = "halt",
    }
}
words! {
    /// What it does that a kept test asserts less than at t0.
    Assertions {
        /// It is a breach.
        Strict = "strict",
        /// It is noted.
        Report = "report",
        /// Nothing.
        Off = "off",
    }
}
words! {
    /// What a breach does.
    OnBreach {
        /// The run halts.
        Halt = "halt",
        /// The next iteration starts from the accepted snapshot.
        Revert = "revert",
    }
}
words! {
    /// What an attempt of the check to reach what its zone does not have does.
    Hermeticity {
        /// It is noted.
        Note = "note",
        /// The run halts.
        Strict = "strict",
    }
}
words! {
    /// What isolates a process.
    Backend {
        /// The strongest that works.
        Auto = "auto",
        /// Namespaces that an unprivileged user makes.
        Namespaces = "namespaces",
        /// Namespaces that root makes.
        Root = "root",
        /// Containers of docker or podman.
        Oci = "oci",
        /// Landlock and a filter of system calls.
        Landlock = "landlock",
        /// Nothing.
        None = "none",
    }
}
words! {
    /// What makes containers.
    Engine {
        /// docker and its daemon.
        Docker = "docker",
        /// podman.
        Podman = "podman",
    }
}
words! {
    /// The network of `setup`.
    SetupNetwork {
        /// The caller's.
        Host = "host",
        /// A loopback of its own.
        None = "none",
    }
}
words! {
    /// A degraded backend that may be used.
    Degraded {
        /// Landlock alone.
        Landlock = "landlock",
        /// Seatbelt on macOS.
        Seatbelt = "seatbelt",
        /// Nothing.
        None = "none",
    }
}
words! {
    /// A part of the context.
    ContextPart {
        /// Failing tests and their messages.
        Failures = "failures",
        /// What the last attempts changed.
        Diff = "diff",
        /// Files that failures and the last diff name.
        Imports = "imports",
    }
}
words! {
    /// A pin that a loop can do without.
    PinName {
        /// Which model answered.
        Identity = "identity",
        /// How it was sampled.
        Sampling = "sampling",
        /// What it cost.
        Cost = "cost",
    }
}
words! {
    /// When the receipt is made durable.
    Durability {
        /// After every event.
        Event = "event",
        /// After every iteration.
        Iteration = "iteration",
    }
}
words! {
    /// Where a question to a person is put.
    Escalate {
        /// Into a file of the run.
        File = "file",
        /// Into the result that the run prints.
        Stdout = "stdout",
    }
}

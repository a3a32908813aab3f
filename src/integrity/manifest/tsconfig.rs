//! What a TypeScript project checks, and how strictly.

use super::plain::{parse_both, whole};
use super::walk::{Findings, Rule, Weight, grows, turns_off, turns_on, walk};
use super::{Pair, tree};
use serde_json::Value;

/// Options that find errors when they are on.
const STRICT: &[&str] = &[
    "strict",
    "noImplicitAny",
    "strictNullChecks",
    "strictFunctionTypes",
    "strictBindCallApply",
    "strictPropertyInitialization",
    "strictBuiltinIteratorReturn",
    "noImplicitThis",
    "useUnknownInCatchVariables",
    "alwaysStrict",
    "noUnusedLocals",
    "noUnusedParameters",
    "noImplicitReturns",
    "noFallthroughCasesInSwitch",
    "noUncheckedIndexedAccess",
    "noUncheckedSideEffectImports",
    "exactOptionalPropertyTypes",
    "noImplicitOverride",
    "noPropertyAccessFromIndexSignature",
    "noEmitOnError",
    "forceConsistentCasingInFileNames",
    "checkJs",
    "isolatedDeclarations",
    "erasableSyntaxOnly",
];

/// Options that hide errors when they are on.
const LAX: &[&str] = &[
    "skipLibCheck",
    "skipDefaultLibCheck",
    "noCheck",
    "allowUnreachableCode",
    "allowUnusedLabels",
    "suppressImplicitAnyIndexErrors",
    "suppressExcessPropertyErrors",
    "noStrictGenericChecks",
    "keyofStringsOnly",
    "noResolve",
];

/// Compares `tsconfig*.json`; one that came was no t0 check's.
pub(super) fn compare(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() || pair.after.is_none() {
        let came = pair.before.is_none();
        whole(pair, if came { Weight::Allowed } else { Weight::Breach }, findings);
        return;
    }
    if let Some((before, after)) = parse_both(pair, tree::json, findings) {
        walk(&before, &after, &rule, findings);
    }
}

fn rule(path: &[&str]) -> Rule {
    match path {
        ["compilerOptions"] => Rule::Into,
        ["compilerOptions", option] if STRICT.contains(option) => Rule::Judge(turns_on),
        ["compilerOptions", option] if LAX.contains(option) => Rule::Judge(turns_off),
        ["compilerOptions", "noEmit"] => Rule::Steers,
        ["extends" | "ts-node" | "tsx"] => Rule::Steers,
        ["include" | "files"] => Rule::Judge(widens),
        ["references"] => Rule::Grows,
        ["exclude"] => Rule::Judge(|before, after| grows(after, before)),
        _ => Rule::Notes,
    }
}

/// What is named may become more; where nothing was named everything was meant.
fn widens(before: Option<&Value>, after: Option<&Value>) -> Weight {
    if before.is_none() { Weight::Breach } else { grows(before, after) }
}

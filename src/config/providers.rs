//! Where the providers of models are reached.

/// Returns the `host:port` at which a provider's API is served, as its own documentation gives it; none for one
/// that is reached elsewhere for everybody.
pub fn address_of(provider: &str) -> Option<&'static str> {
    match provider {
        // docs.claude.com, "API overview".
        "anthropic" => Some("api.anthropic.com:443"),
        // platform.openai.com, "API reference".
        "openai" => Some("api.openai.com:443"),
        // ai.google.dev, "Gemini API reference".
        "google" => Some("generativelanguage.googleapis.com:443"),
        _ => None,
    }
}

//! One HTTP client: proxies, retries that honour what the server says, a total cap.

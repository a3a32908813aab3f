//! What started the workflow, from the environment and the event file.

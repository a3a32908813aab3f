//! GitLab: notes, reports and log sections.

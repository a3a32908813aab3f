//! Workflow commands: annotations, groups, masks, and the fence round foreign output.

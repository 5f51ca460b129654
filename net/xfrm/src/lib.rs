//! What IKE daemons say to a kernel about security associations.

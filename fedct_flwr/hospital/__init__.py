"""The agent at a hospital: its SuperNode, the gate, approvals, the egress log, keys."""

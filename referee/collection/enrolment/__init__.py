"""Who may take part: enrolment, its tokens and its vouchers."""

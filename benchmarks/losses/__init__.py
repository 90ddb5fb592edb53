"""How far training goes from eager's."""

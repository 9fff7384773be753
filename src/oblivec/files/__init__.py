"""Every file Oblivec reads or writes passes through this room."""

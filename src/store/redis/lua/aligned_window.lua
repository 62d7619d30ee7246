first@ = t@ - t@ % period@
last@ = first@ + period@
